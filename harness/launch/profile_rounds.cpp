#include "harness/launch/profile_rounds.h"

#include <algorithm>

#include "harness/launch/protocol.h"
#include "harness/launch/timed_group.h"
#include "harness/measure/measure.h"
#include "profiles/import/import.h"

namespace dettax {
namespace {

constexpr int kRoundsLeast = 3;
constexpr int kRoundsMost = 16;
constexpr int kStepsABlock = 2;
// Each block runs twice a round, and each of these without recording and with it.
constexpr int kBlocksARound = 2;
constexpr int kWays = 2;
static_assert(kRoundsMost * kBlocksARound * kStepsABlock <= kProfiledStepsMost);

// The recorded block after the plain one in one half of the rounds' blocks, before it in the other.
void run_block(ArmGroup& group, int steps, int round, int& position, ProfiledBlocks& out) {
  TimedGroup timed(group);
  const auto plain = [&] {
    Block block = timed.run_steps(steps);
    block.round = round;
    block.position = position++;
    out.plain.push_back(std::move(block));
  };
  const auto recorded = [&] {
    Block block;
    block.step_time_seconds = group.profile_steps(steps).step_time_seconds;
    block.round = round;
    block.position = position++;
    out.recorded.push_back(std::move(block));
  };
  const bool recorded_first = (round + static_cast<int>(out.plain.size())) % 2 == 1;
  if (recorded_first) recorded();
  plain();
  if (!recorded_first) recorded();
}

}  // namespace

RoundPlan plan_rounds(size_t arms, double step_seconds, double budget_seconds) {
  const RoundPlan one{1, kStepsABlock};
  const double fit = budget_seconds / rounds_seconds(one, arms, std::max(step_seconds, 1e-6));
  return {std::clamp(static_cast<int>(std::min(fit, 1e6)), kRoundsLeast, kRoundsMost), one.steps};
}

double rounds_seconds(const RoundPlan& plan, size_t arms, double step_seconds) {
  return static_cast<double>(arms) * plan.rounds * plan.steps * kBlocksARound * kWays *
         step_seconds;
}

std::vector<ProfiledBlocks> run_profile_rounds(const std::vector<ArmGroup*>& groups,
                                               const RoundPlan& plan, uint64_t seed,
                                               const std::function<void(int)>& on_round) {
  std::vector<ProfiledBlocks> out(groups.size());
  int position = 0;
  for (int round = 0; round < plan.rounds; ++round) {
    on_round(round);
    std::vector<size_t> order = round_order(groups.size(), seed, round);
    const std::vector<size_t> mirrored(order.rbegin(), order.rend());
    order.insert(order.end(), mirrored.begin(), mirrored.end());
    for (const size_t group : order)
      run_block(*groups[group], plan.steps, round, position, out[group]);
  }
  return out;
}

std::vector<Trace> collect_traces(ArmGroup& group, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  group.take_traces(folder);
  return read_traces(folder);
}

}  // namespace dettax
