#pragma once

#include <span>
#include <vector>

#include "results/analysis/projection/schedule.h"

namespace dettax {

// What the passes of one chunk of layers take, exposed communication inside them included.
struct PassTimes {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double both = 0;  // forward and a whole backward as an overlapped pair; 0: their sum

  double backward() const { return backward_input + backward_weight; }
};

struct PipelineInput {
  std::vector<PassTimes> times;  // of chunk c of stage s at s * chunks + c
  double send_seconds = 0;       // what travels between neighbours takes this long
  bool overlap_sends = true;     // else both stages wait for it
  // Empty, or the factor of each task's duration, stage after stage in the schedule's order.
  std::span<const double> factors;
};

struct StageTimes {
  double first_start = 0, end = 0, busy = 0;
  std::vector<double> last_backward_end;    // of each chunk
  std::vector<double> first_forward_start;  // of each chunk
};
struct PipelineTimes {
  double makespan = 0;  // until the last stage's last task
  double span =
      0;  // longest of a stage from its own first to its own last task: the step's period where stages need not meet
  std::vector<StageTimes> stages;
};

// Exact and event driven: a task begins when its stage is free and what it needs has arrived; O(tasks).
// Throws Error{internal} if the schedule can never finish.
PipelineTimes run_pipeline(const Schedule& schedule, const PipelineInput& input);

}  // namespace dettax
