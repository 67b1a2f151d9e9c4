#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

// One arm of a case as the measuring loop sees it: something that can run steps and say how long
// each took on each rank. Behind it stands a group of processes (harness/launch) or, in tests, a
// simulated workload.
class TimedArm {
 public:
  virtual ~TimedArm() = default;
  virtual const std::string& name() const = 0;
  // Runs `steps` steps; [rank][step] in seconds, with the guards of that stretch. Throws Error when
  // the arm broke.
  virtual Block run_steps(int steps) = 0;
};

// What the loop needs of the world; replaced in tests.
struct MeasureClock {
  std::function<double()> now_seconds;
};

MeasureClock steady_clock();

struct MeasureProgress {
  int round = 0;
  double elapsed_seconds = 0;
  double remaining_seconds = 0;  // estimate, budget included
  double half_width_ratio = 0;   // widest interval so far; 0 before there is one
};

// An arm that threw while it was measured; what was measured before it did is kept.
struct ArmFailure {
  size_t arm = 0;  // index into `arms`
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};

struct Measurement {
  std::vector<std::vector<Block>> blocks;                // [arm]
  std::vector<std::vector<double>> warmup_step_seconds;  // [arm], maximum over ranks
  int steps_per_block = 0;
  bool reached_target = false;             // else the budget or rounds_max ended it
  double elapsed_seconds = 0;              // of the rounds, without the warm-up
  int rounds_repeated = 0;                 // disturbed rounds that were run again
  std::vector<std::string> unsteady_arms;  // still not steady after warmup_steps_max
  std::optional<ArmFailure> failure;       // ended the measuring; no other exception type is caught
};

// A round whose guards are above one of these in any of its blocks counts as disturbed: it is run
// again (its blocks stay in the record, marked `repeated`), at most kRepeatsMin times or for a
// quarter of the rounds, whichever is more; further ones count and a warning says so. Guards do not
// look at step times, so that choosing by them does not bend the ratio.
inline constexpr double kStealLimit = 0.05;
inline constexpr double kOtherLoadLimit = 0.10;
inline constexpr int kRepeatsMin = 2;

// Warm-up of every arm to a steady state (warmup.h), then rounds of blocks: in each round every arm
// runs once in a seeded order and once more in the mirrored order (ABBA and its kin), so that a
// linear drift cancels. arms[0] is the fast arm. Stops when the widest interval of arm / fast is
// narrow enough at two looks running (after rounds_min and every second round from there), or when another round
// would not fit into the budget; three rounds are run whatever the budget, since fewer say nothing.
Measurement measure(const std::vector<TimedArm*>& arms, const MeasureSettings& settings,
                    uint64_t seed, const MeasureClock& clock,
                    const std::function<void(const MeasureProgress&)>& on_progress);

// Order of the arms in a round: the mirror image follows it. Every arm takes every place once in
// each `arms` rounds.
std::vector<size_t> round_order(size_t arms, uint64_t seed, int round);

// Median over the steps of a block of the slowest rank's time: a single slow step does not move it.
double block_seconds(const Block& block);

// Ratio arm / fast from the rounds both have: per round the mean log of the block medians against
// fast's; t interval over rounds. Repeated rounds stay out. n < 3 gives no estimate. Every other
// round counts in full, an outlier too: it widens the interval, and noise_warnings names it.
std::optional<Estimate> paired_ratio(const std::vector<Block>& arm, const std::vector<Block>& fast,
                                     double confidence);
// The log ratios behind it.
struct RoundRatio {
  int round = 0;
  double log_ratio = 0;
};
std::vector<RoundRatio> round_ratios(const std::vector<Block>& arm, const std::vector<Block>& fast);
// Smallest ratio > 1 that a two-sided test at `confidence` with 80 % power tells from 1, from the
// spread of arm / fast. Infinite for less than 3 rounds.
double min_detectable_ratio(const std::vector<Block>& arm, const std::vector<Block>& fast,
                            double confidence);
// Median step time over all blocks with a distribution-free interval of the block medians. Fewer
// blocks than such an interval needs (6 for 95 %) give the smallest and the largest: less than
// `confidence`, as the count says. No block, no estimate.
std::optional<Estimate> step_time(const std::vector<Block>& blocks, double confidence);
// Relative trend of an arm over the case, per hour, from its block medians (Theil-Sen).
double drift_per_hour(const std::vector<Block>& blocks);

// All that a record says about one arm against fast; `control` may be empty. Nothing if there are
// too few rounds.
std::optional<Tax> estimate_tax(const std::string& arm_name, const std::vector<Block>& arm,
                                const std::vector<Block>& fast, const std::vector<Block>& control,
                                double confidence);

}  // namespace dettax
