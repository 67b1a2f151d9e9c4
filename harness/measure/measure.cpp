#include "harness/measure/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "harness/base/random.h"
#include "harness/base/robust.h"
#include "harness/measure/noise.h"
#include "harness/measure/warmup.h"

namespace dettax {
namespace {

constexpr int kRoundsForInterval = 3;
// Raw times of every step go into the record: more steps a block would only make it larger.
constexpr int kStepsPerBlockMax = 1000;
// An interval that is narrow once may be so by chance. On the simulated lognormal machine of tests/measure/calibration_test.cpp A/A
// pairs were called different in 5.8 % of 1000 runs with one look and in 4.8 % with two.
constexpr int kNarrowLooks = 2;

// Carries the index of the arm that threw out of the loop.
struct Broken {
  ArmFailure failure;
};

class Loop {
 public:
  Loop(const std::vector<TimedArm*>& arms, const MeasureSettings& settings, uint64_t seed,
       const MeasureClock& clock, const std::function<void(const MeasureProgress&)>& on_progress)
      : arms_(arms), settings_(settings), seed_(seed), clock_(clock), on_progress_(on_progress) {
    result_.blocks.resize(arms.size());
    result_.warmup_step_seconds.resize(arms.size());
  }

  Measurement run() {
    try {
      for (size_t arm = 0; arm < arms_.size(); ++arm) warm_up(arm);
      result_.steps_per_block = choose_steps_per_block();
      start_seconds_ = clock_.now_seconds();
      run_rounds();
    } catch (const Broken& broken) {
      result_.failure = broken.failure;
    }
    if (start_seconds_) result_.elapsed_seconds = elapsed();
    return std::move(result_);
  }

 private:
  Block run_steps(size_t arm, int steps) {
    try {
      return arms_[arm]->run_steps(steps);
    } catch (const Error& error) {
      throw Broken{{arm, error.kind(), error.what()}};
    }
  }

  void warm_up(size_t arm) {
    std::vector<double>& times = result_.warmup_step_seconds[arm];
    const size_t window = static_cast<size_t>(std::max(2, settings_.warmup_steps_min));
    while (!is_steady(times, window)) {
      if (static_cast<int>(times.size()) >= settings_.warmup_steps_max) {
        result_.unsteady_arms.push_back(arms_[arm]->name());
        return;
      }
      times.push_back(block_seconds(run_steps(arm, 1)));
    }
  }

  // As many steps as last block_seconds on the fast arm, but few enough for rounds_min rounds to
  // fit into the budget.
  int choose_steps_per_block() const {
    if (settings_.steps_per_block > 0) return settings_.steps_per_block;
    double fast_step = 0, step_of_each = 0;
    for (size_t arm = 0; arm < arms_.size(); ++arm) {
      const double step = late_median(result_.warmup_step_seconds[arm]);
      if (arm == 0) fast_step = step;
      step_of_each += step;
    }
    if (!(fast_step > 0)) return 1;
    const double wanted = settings_.block_seconds / fast_step;
    const double affordable = settings_.budget_seconds / (2 * settings_.rounds_min * step_of_each);
    return std::clamp(static_cast<int>(std::min({wanted, affordable, double{kStepsPerBlockMax}})),
                      1, kStepsPerBlockMax);
  }

  static double late_median(const std::vector<double>& times) {
    return median({times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end()});
  }

  void run_rounds() {
    int counted = 0, narrow_looks = 0;
    for (int round = 0;
         counted < settings_.rounds_max && (counted < kRoundsForInterval || another_fits(round));
         ++round) {
      const bool quiet = run_round(round);
      if (!quiet && may_repeat(counted)) {
        mark_repeated(round);
        ++result_.rounds_repeated;
      } else {
        ++counted;
      }
      const double half_width = widest_half_width();
      report(round + 1, half_width);
      if (counted < settings_.rounds_min || (counted - settings_.rounds_min) % 2 != 0) continue;
      narrow_looks =
          half_width > 0 && half_width <= settings_.target_half_width ? narrow_looks + 1 : 0;
      if (narrow_looks == kNarrowLooks) {
        result_.reached_target = true;
        return;
      }
    }
  }

  bool another_fits(int rounds_run) const {
    return elapsed() * (rounds_run + 1) / rounds_run <= settings_.budget_seconds;
  }
  bool may_repeat(int counted) const {
    return result_.rounds_repeated < std::max(kRepeatsMin, counted / 4);
  }

  bool run_round(int round) {
    std::vector<size_t> order = round_order(arms_.size(), seed_, round);
    const std::vector<size_t> mirrored(order.rbegin(), order.rend());
    order.insert(order.end(), mirrored.begin(), mirrored.end());
    bool quiet = true;
    for (size_t arm : order) {
      const double start = elapsed();
      Block block = run_steps(arm, result_.steps_per_block);
      block.round = round;
      block.position = position_++;
      block.start_seconds = start;
      quiet = quiet && !disturbed(block);
      result_.blocks[arm].push_back(std::move(block));
    }
    return quiet;
  }

  void mark_repeated(int round) {
    for (std::vector<Block>& blocks : result_.blocks) {
      for (Block& block : blocks) block.repeated = block.repeated || block.round == round;
    }
  }

  // Half-width of the widest interval of arm / fast on the ratio's own scale; 0 before there is
  // one.
  double widest_half_width() const {
    double widest = 0;
    for (size_t arm = 1; arm < arms_.size(); ++arm) {
      const std::optional<Estimate> ratio =
          paired_ratio(result_.blocks[arm], result_.blocks[0], settings_.confidence);
      if (!ratio) return 0;
      widest = std::max(widest, (ratio->high - ratio->low) / 2);
    }
    return widest;
  }

  void report(int rounds_run, double half_width) const {
    if (!on_progress_) return;
    MeasureProgress progress;
    progress.round = rounds_run;
    progress.elapsed_seconds = elapsed();
    progress.half_width_ratio = half_width;
    const double left = std::max(0.0, settings_.budget_seconds - progress.elapsed_seconds);
    // The half-width falls with the square root of the number of rounds.
    const double shrink = half_width / settings_.target_half_width;
    progress.remaining_seconds =
        half_width > 0
            ? std::min(left, progress.elapsed_seconds * std::max(0.0, shrink * shrink - 1))
            : left;
    on_progress_(progress);
  }

  double elapsed() const { return start_seconds_ ? clock_.now_seconds() - *start_seconds_ : 0; }

  const std::vector<TimedArm*>& arms_;
  const MeasureSettings& settings_;
  uint64_t seed_;
  const MeasureClock& clock_;
  const std::function<void(const MeasureProgress&)>& on_progress_;
  std::optional<double> start_seconds_;
  int position_ = 0;
  Measurement result_;
};

}  // namespace

MeasureClock steady_clock() {
  return {[] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }};
}

std::vector<size_t> round_order(size_t arms, uint64_t seed, int round) {
  // A shuffled order for each group of `arms` rounds, turned by one place from round to round.
  const size_t group = static_cast<size_t>(round) / arms, turn = static_cast<size_t>(round) % arms;
  std::vector<size_t> order(arms);
  std::iota(order.begin(), order.end(), size_t{0});
  const RandomKey key{seed, RandomPurpose::schedule, 0};
  for (size_t i = arms; i > 1; --i) {
    const size_t other = random_words(key, group, i)[0] % i;
    std::swap(order[i - 1], order[other]);
  }
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn), order.end());
  return order;
}

Measurement measure(const std::vector<TimedArm*>& arms, const MeasureSettings& settings,
                    uint64_t seed, const MeasureClock& clock,
                    const std::function<void(const MeasureProgress&)>& on_progress) {
  if (arms.size() < 2)
    throw Error(ErrorKind::internal, "measure: needs the fast arm and at least one other");
  return Loop(arms, settings, seed, clock, on_progress).run();
}

}  // namespace dettax
