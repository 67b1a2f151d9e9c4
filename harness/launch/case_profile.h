#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

// What profiling a case needs of it.
struct ProfileContext {
  const Case& planned;
  const Suite& suite;
  std::filesystem::path folder;  // traces go into folders of it, one an arm
  double step_seconds = 0;       // of the fast arm, to plan by
  std::function<void(const std::string&)>
      on_stage;  // told before each stage what it is, for people; may throw to end it all
};

// Where each group's steps differ from those of groups[0], from further steps of the groups. An arm whose traces say nothing has a
// refusal in place of numbers.
std::vector<ArmProfile> profile_arms(const std::vector<ArmGroup*>& groups,
                                     const ProfileContext& context);

// What each knob of the mode costs, by mechanism, from groups of processes of its own, one for each setting of the knobs. `controls`
// say which knobs equal bits need; the cheapest set found by them is run to see whether it is enough.
Ablation run_ablation(Launcher& launcher, const Mode& mode,
                      const std::vector<KnobControl>& controls, const ProfileContext& context);

}  // namespace dettax
