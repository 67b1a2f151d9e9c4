#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

// One arm of a case as the measuring loop sees it: something that can run steps and say how long each took on each rank. Behind it
// stands a group of processes (harness/launch) or, in tests, a simulated workload.
class TimedArm {
 public:
  virtual ~TimedArm() = default;
  virtual const std::string& name() const = 0;
  // Runs `steps` steps; [rank][step] in seconds, with the guards of that stretch. Throws Error when the arm broke.
  virtual Block run_steps(int steps) = 0;
};

// What the loop needs of the world; replaced in tests.
struct MeasureClock {
  std::function<double()> now_seconds;
};

struct MeasureProgress {
  int round = 0;
  double elapsed_seconds = 0;
  double remaining_seconds = 0;        // estimate, budget included
  double half_width_ratio = 0;         // widest interval so far; 0 before there is one
};

struct Measurement {
  std::vector<std::vector<Block>> blocks;                 // [arm]
  std::vector<std::vector<double>> warmup_step_seconds;   // [arm], maximum over ranks
  int steps_per_block = 0;
  bool reached_target = false;                            // else the budget or rounds_max ended it
  double elapsed_seconds = 0;
};

// Warm-up of every arm to a steady state, then rounds of blocks: in each round every arm runs once in a seeded random order and once
// more in the mirrored order (ABBA and its kin), so that a linear drift cancels. arms[0] is the fast arm. Stops when the widest
// interval of arm / fast is narrow enough (looked at only after rounds_min and at every second round), or the budget is spent.
Measurement measure(const std::vector<TimedArm*>& arms, const MeasureSettings& settings, uint64_t seed, const MeasureClock& clock,
                    const std::function<void(const MeasureProgress&)>& on_progress);

// Ratio arm / fast from the rounds both have: per round the mean log of the two block medians (of the slowest rank's step times)
// against fast's; t interval over rounds. n < 3 gives no estimate. Source: conventions of paired designs; t quantile by Boost.
std::optional<Estimate> paired_ratio(const std::vector<Block>& arm, const std::vector<Block>& fast, double confidence);
// Smallest ratio > 1 that a two-sided test at `confidence` with 80 % power tells from 1, from the spread of control / fast.
double min_detectable_ratio(const std::vector<Block>& control, const std::vector<Block>& fast, double confidence);
// Median step time over all blocks with a distribution-free interval of the block medians.
std::optional<Estimate> step_time(const std::vector<Block>& blocks, double confidence);
// Relative trend of an arm over the case, per hour, from its block medians (Theil-Sen).
double drift_per_hour(const std::vector<Block>& blocks);

}  // namespace dettax
