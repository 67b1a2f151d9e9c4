#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "profiles/trace.h"
#include "results/record.h"

namespace dettax {

// How many rounds of how many steps; each arm runs them twice a round, mirrored, with and without recording.
struct RoundPlan {
  int rounds = 0, steps = 0;
};
// As many as fit into the budget, three rounds at least; no more than a recorder holds.
RoundPlan plan_rounds(size_t arms, double step_seconds, double budget_seconds);

// How long the rounds of such a plan take.
double rounds_seconds(const RoundPlan& plan, size_t arms, double step_seconds);

// One arm's blocks without recording and with, round by round.
struct ProfiledBlocks {
  std::vector<Block> plain, recorded;
};

// Runs all groups in turn, in a balanced order (measure.h), each time without recording and with it, one right after the other.
// `on_round` is told before each round which it is.
std::vector<ProfiledBlocks> run_profile_rounds(const std::vector<ArmGroup*>& groups,
                                               const RoundPlan& plan, uint64_t seed,
                                               const std::function<void(int)>& on_round);

// What each rank of a group recorded, kept in `folder`, which is made.
std::vector<Trace> collect_traces(ArmGroup& group, const std::filesystem::path& folder);

}  // namespace dettax
