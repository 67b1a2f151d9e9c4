#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/ablation.h"
#include "results/record.h"

namespace dettax {

// One way of setting the knobs, as it ran: rounds without recording, and what recorded steps say by mechanism, less the same of fast.
struct AblationRuns {
  std::vector<Block> blocks;
  std::map<std::string, double> mechanism_delta_seconds;
};
struct ToggledKnob {
  std::string knob, part;
  AblationRuns alone, without;  // fast with this knob; the mode without it
};

// The matrix of knobs and mechanisms. The cost of a knob is the mean of what it adds to fast and of what the mode is slower with it than
// without it, which shares an interaction of two knobs between them; what three and more do together is the row `interaction`. All is
// linear in means over steps, so that rows and columns add up to the total; Error{internal} if they do not.
// Rounds that any of the runs lacks are left out; fewer than three give no interval.
Ablation ablate(const std::string& arm, const std::vector<Block>& fast, const AblationRuns& mode,
                const std::vector<ToggledKnob>& knobs, double confidence);

// Throws Error{internal} unless rows and columns add up to the total, and each row's cells and recording to its seconds, within a
// billionth of the largest entry.
void check_closes(const Ablation& ablation);

}  // namespace dettax
