#pragma once

#include <vector>

#include "harness/launch/case_profile.h"
#include "harness/plan/toggles.h"
#include "results/record.h"

namespace dettax {

// The fewest of the mode's knobs whose runs still agree: those that its controls saw to be needed, and then, as long as runs of them
// differ, the knob that acts where they first did. Each set is run under stress and once in processes of its own; the set found is timed
// against fast.
SufficientSet find_sufficient_set(Launcher& launcher, const Mode& mode,
                                  const std::vector<Toggle>& knobs,
                                  const std::vector<KnobControl>& controls,
                                  const ProfileContext& context);

}  // namespace dettax
