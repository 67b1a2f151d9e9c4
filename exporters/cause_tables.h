#pragma once

#include <string>
#include <vector>

#include "exporters/text_layout.h"
#include "results/record.h"

namespace dettax {

// Where a deterministic arm loses its time, by mechanism and by the paths that differ most.
Grid mechanism_grid(const ArmProfile& profile);
Grid path_grid(const ArmProfile& profile);
// A sentence each: what recording changed, and what a reader has to know.
std::vector<std::string> profile_words(const ArmProfile& profile);

// Knobs against mechanisms, with rows for interaction and total.
Grid ablation_grid(const Ablation& ablation);
// From fast to the mode, knob by knob.
Grid waterfall_grid(const Ablation& ablation, double fast_seconds);
// A sentence each: the parts of the tax, and which knobs are enough.
std::vector<std::string> ablation_words(const Ablation& ablation);

}  // namespace dettax
