#include "harness/launch/timed_group.h"

#include <algorithm>
#include <utility>

#include "harness/launch/guards.h"

namespace dettax {

namespace {

// A block is as disturbed as the most disturbed of its machines.
void take_worse(Block& block, const HostLoad& host) {
  Block here;
  fill_guards(here, host.before, host.after, host.cpu_seconds);
  block.steal_ratio = std::max(block.steal_ratio, here.steal_ratio);
  block.other_load_ratio = std::max(block.other_load_ratio, here.other_load_ratio);
  block.pressure_ratio = std::max(block.pressure_ratio, here.pressure_ratio);
  const bool first = block.frequency_hz == 0;
  block.frequency_hz = first ? here.frequency_hz : std::min(block.frequency_hz, here.frequency_hz);
}

}  // namespace

Block TimedGroup::run_steps(int steps) {
  StepsRun run = group_.run_steps(steps);
  Block block;
  block.step_time_seconds = std::move(run.step_time_seconds);
  for (const HostLoad& host : run.hosts) take_worse(block, host);
  return block;
}

}  // namespace dettax
