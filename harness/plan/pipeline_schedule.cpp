#include "harness/plan/pipeline_schedule.h"

#include <algorithm>

namespace dettax {
namespace {

// The k-th pass in one direction: groups of pp micro-batches go through one chunk after the other, backward from the last chunk on.
PipelineAction pass(const Layout& layout, bool backward, int64_t k) {
  const int64_t group = int64_t{layout.pp} * layout.vp;
  const auto chunk = static_cast<int>(k % group / layout.pp);
  if (layout.vp == 1) return {backward, k, 0};
  return {backward, k / group * layout.pp + k % layout.pp,
          backward ? layout.vp - 1 - chunk : chunk};
}

// Forward passes before forward and backward alternate. A stage of 1F1B runs ahead until the first micro-batch has reached the last
// stage; with chunks that takes all but the last chunk of a group and, since a gradient comes back only after a round trip, twice the
// distance.
int64_t warm_up(const Layout& layout, int stage, int64_t passes) {
  const int64_t distance = layout.pp - 1 - stage;
  switch (layout.schedule) {
    case PipelineSchedule::gpipe:
      return passes;
    case PipelineSchedule::one_f_one_b:
      return std::min(distance, passes);
    case PipelineSchedule::interleaved:
      return std::min(2 * distance + int64_t{layout.vp - 1} * layout.pp, passes);
  }
  return passes;
}

}  // namespace

std::vector<PipelineAction> pipeline_schedule(const Layout& layout, int stage,
                                              int64_t micro_batches) {
  const int64_t passes = micro_batches * layout.vp;
  const int64_t ahead = warm_up(layout, stage, passes);
  std::vector<PipelineAction> actions;
  actions.reserve(static_cast<size_t>(2 * passes));
  for (int64_t k = 0; k < ahead; ++k) actions.push_back(pass(layout, false, k));
  for (int64_t k = 0; k < passes; ++k) {
    if (ahead + k < passes) actions.push_back(pass(layout, false, ahead + k));
    actions.push_back(pass(layout, true, k));
  }
  return actions;
}

int64_t micro_batches_in_flight(const std::vector<PipelineAction>& actions, int chunk) {
  int64_t alive = 0;
  int64_t most = 0;
  for (const PipelineAction& action : actions) {
    if (action.chunk != chunk) continue;
    alive += action.backward ? -1 : 1;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace dettax
