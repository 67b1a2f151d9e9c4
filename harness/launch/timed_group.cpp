#include "harness/launch/timed_group.h"

#include <utility>

#include "harness/launch/guards.h"

namespace dettax {

Block TimedGroup::run_steps(int steps) {
  const MachineSample before = sample_machine();
  StepsRun run = group_.run_steps(steps);
  Block block;
  block.step_time_seconds = std::move(run.step_time_seconds);
  fill_guards(block, before, sample_machine(), run.cpu_seconds);
  return block;
}

}  // namespace dettax
