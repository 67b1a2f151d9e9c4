#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/quantiles.h"
#include "harness/measure/noise.h"
#include "tests/measure/simulated_arm.h"

namespace dettax {
namespace {

struct Bench {
  explicit Bench(double sigma = 0.01, uint64_t seed = 1) : dice(seed), noise(lognormal(sigma)) {}
  Dice dice;
  SimulatedTime time;
  Noise noise;
  SimulatedArm fast{"fast", 0.05, noise, dice, time};
  SimulatedArm control{"control", 0.05, noise, dice, time};
  SimulatedArm det{"deterministic", 0.05, noise, dice, time};
  std::vector<TimedArm*> arms() { return {&fast, &control, &det}; }
};

TEST(Measure, EveryRoundIsMirroredSoThatPositionsBalance) {
  Bench bench;
  MeasureSettings settings;
  settings.rounds_max = 6;
  settings.target_half_width = 0;
  const Measurement m = measure(bench.arms(), settings, 3, bench.time.clock(), {});
  for (const auto& blocks : m.blocks) {
    ASSERT_EQ(blocks.size(), 12U);
    for (int round = 0; round < 6; ++round) {
      int places = 0;
      for (const Block& block : blocks)
        places += block.round == round ? block.position - 6 * round : 0;
      EXPECT_EQ(places, 5)
          << "first and mirrored place of a round of six add up to five for every arm";
    }
  }
}

TEST(Measure, EveryArmTakesEveryPlaceEquallyOften) {
  for (size_t arms : {size_t{2}, size_t{3}, size_t{4}}) {
    for (size_t place = 0; place < arms; ++place) {
      std::multiset<size_t> seen;
      for (size_t round = 0; round < arms; ++round)
        seen.insert(round_order(arms, 7, static_cast<int>(round))[place]);
      for (size_t arm = 0; arm < arms; ++arm) EXPECT_EQ(seen.count(arm), 1U);
    }
  }
}

TEST(Measure, TheOrderComesFromTheSeed) {
  std::vector<std::vector<size_t>> one, again, other;
  for (int round = 0; round < 12; ++round) {
    one.push_back(round_order(3, 1, round));
    again.push_back(round_order(3, 1, round));
    other.push_back(round_order(3, 2, round));
  }
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
}

TEST(Measure, ABlockLastsAboutAsLongAsAsked) {
  Bench bench;
  MeasureSettings settings;
  settings.block_seconds = 0.5;
  EXPECT_NEAR(measure(bench.arms(), settings, 1, bench.time.clock(), {}).steps_per_block, 10, 1);
}

TEST(Measure, AShortBudgetShortensTheBlocksAndStillRunsThreeRounds) {
  Bench bench;
  MeasureSettings settings;
  settings.budget_seconds = 0.5;
  const Measurement m = measure(bench.arms(), settings, 1, bench.time.clock(), {});
  EXPECT_EQ(m.steps_per_block, 1);
  EXPECT_EQ(m.blocks[0].size(), 6U);
  EXPECT_FALSE(m.reached_target);
  EXPECT_EQ(paired_ratio(m.blocks[2], m.blocks[0], 0.95)->count, 3);
}

TEST(Measure, TheBudgetIsKept) {
  Bench bench(0.2);
  MeasureSettings settings;
  settings.budget_seconds = 20;
  const Measurement m = measure(bench.arms(), settings, 1, bench.time.clock(), {});
  EXPECT_LE(m.elapsed_seconds, 21);
  EXPECT_GT(m.elapsed_seconds, 15);
  EXPECT_FALSE(m.reached_target);
}

TEST(Measure, StopsWhenTheIntervalIsNarrow) {
  Bench bench(0.002);
  const Measurement m = measure(bench.arms(), MeasureSettings{}, 1, bench.time.clock(), {});
  EXPECT_TRUE(m.reached_target);
  const auto ratio = paired_ratio(m.blocks[2], m.blocks[0], 0.95);
  EXPECT_LE((ratio->high - ratio->low) / 2, 0.01);
  EXPECT_LT(m.elapsed_seconds, 20);
}

TEST(Measure, ReportsProgressThatEnds) {
  Bench bench(0.2);
  std::vector<MeasureProgress> seen;
  measure(bench.arms(), MeasureSettings{}, 1, bench.time.clock(),
          [&](const MeasureProgress& p) { seen.push_back(p); });
  ASSERT_FALSE(seen.empty());
  EXPECT_GT(seen.front().remaining_seconds, seen.back().remaining_seconds);
  EXPECT_GT(seen.back().half_width_ratio, 0);
}

TEST(Measure, ADisturbedRoundIsRepeatedAndItsTimesAreKeptButDoNotCount) {
  Bench bench;
  int blocks_run = 0;
  bench.det.before_block = [&](Block& block) {
    if (++blocks_run == 8) block.steal_ratio = 0.3;  // blocks 1 to 4 are warm-up
  };
  MeasureSettings settings;
  settings.rounds_max = 6;
  settings.target_half_width = 0;
  const Measurement m = measure(bench.arms(), settings, 1, bench.time.clock(), {});
  EXPECT_EQ(m.rounds_repeated, 1);
  EXPECT_EQ(m.blocks[2].size(), 14U);
  for (const auto& blocks : m.blocks)
    EXPECT_EQ(
        std::count_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.repeated; }), 2);
  EXPECT_EQ(paired_ratio(m.blocks[2], m.blocks[0], 0.95)->count, 6);
  EXPECT_THAT(noise_warnings("deterministic", m.blocks[2], m.blocks[0]),
              testing::Contains("load: 1 disturbed round was repeated"));
}

TEST(Measure, AMachineThatIsAlwaysBusyIsMeasuredAndSaysSo) {
  Bench bench;
  for (SimulatedArm* arm : {&bench.fast, &bench.control, &bench.det})
    arm->before_block = [](Block& block) { block.other_load_ratio = 0.5; };
  MeasureSettings settings;
  settings.rounds_max = 6;
  const Measurement m = measure(bench.arms(), settings, 1, bench.time.clock(), {});
  EXPECT_EQ(m.rounds_repeated, kRepeatsMin);
  EXPECT_EQ(paired_ratio(m.blocks[2], m.blocks[0], 0.95)->count, 6);
  const auto warnings = noise_warnings("deterministic", m.blocks[2], m.blocks[0]);
  EXPECT_THAT(warnings, testing::Contains("load: 2 disturbed rounds were repeated"));
  EXPECT_THAT(warnings, testing::Contains("load: 6 disturbed rounds are in the interval"));
}

TEST(Measure, AnArmThatBreaksKeepsWhatWasMeasured) {
  Bench bench;
  int blocks_run = 0;
  bench.det.before_block = [&](Block&) {
    if (++blocks_run == 10)
      throw Error(ErrorKind::numeric, "step 40, rank 0: the loss is not finite");
  };
  const Measurement m = measure(bench.arms(), MeasureSettings{}, 1, bench.time.clock(), {});
  ASSERT_TRUE(m.failure);
  EXPECT_EQ(m.failure->arm, 2U);
  EXPECT_EQ(m.failure->kind, ErrorKind::numeric);
  EXPECT_THAT(m.failure->message, testing::HasSubstr("step 40"));
  EXPECT_EQ(m.blocks[2].size(), 5U);
  EXPECT_GE(m.blocks[0].size(), 5U);
}

TEST(Statistics, TheSlowestRankIsTheStepAndTheMedianTheBlock) {
  Block block;
  block.step_time_seconds = {{1, 2, 3}, {2, 1, 9}};
  EXPECT_EQ(block_seconds(block), 2);
}

TEST(Statistics, LessThanThreeRoundsGiveNoInterval) {
  std::vector<Block> fast, det;
  for (int round = 0; round < 2; ++round) {
    Block block;
    block.round = round;
    block.step_time_seconds = {{1.0 + 0.01 * round}};
    fast.push_back(block);
    det.push_back(block);
  }
  EXPECT_FALSE(paired_ratio(det, fast, 0.95));
  EXPECT_TRUE(std::isinf(min_detectable_ratio(det, fast, 0.95)));
  EXPECT_FALSE(estimate_tax("deterministic", det, fast, fast, 0.95));
  EXPECT_FALSE(paired_ratio(det, {}, 0.95));
}

TEST(Statistics, TheDetectableTaxIsThatOfTheNoisierOfArmAndControl) {
  std::vector<Block> fast, quiet, noisy;
  for (int round = 0; round < 3; ++round) {
    Block block;
    block.round = round;
    block.step_time_seconds = {{1.0}};
    fast.push_back(block);
    block.step_time_seconds = {{std::exp(0.001 * round)}};
    quiet.push_back(block);
    block.step_time_seconds = {{std::exp(0.01 * round)}};
    noisy.push_back(block);
  }
  const double larger = min_detectable_ratio(noisy, fast, 0.95);
  EXPECT_GT(larger, min_detectable_ratio(quiet, fast, 0.95));
  const auto detectable = [&](const std::vector<Block>& arm, const std::vector<Block>& control) {
    return estimate_tax("deterministic", arm, fast, control, 0.95)->min_detectable_overhead_ratio;
  };
  EXPECT_EQ(detectable(noisy, quiet), larger);
  EXPECT_EQ(detectable(quiet, noisy), larger);
}

// Reference: log ratios 0, 0.01, 0.02: mean 0.01, s = 0.01, t(0.975, 2) = 4.302653.
TEST(Statistics, TheIntervalIsThatOfStudent) {
  std::vector<Block> fast, det;
  for (int round = 0; round < 3; ++round) {
    Block block;
    block.round = round;
    block.step_time_seconds = {{1.0}};
    fast.push_back(block);
    block.step_time_seconds = {{std::exp(0.01 * round)}};
    det.push_back(block);
  }
  const Estimate ratio = *paired_ratio(det, fast, 0.95);
  const double half = 4.302652729911275 * 0.01 / std::sqrt(3.0);
  EXPECT_NEAR(std::log(ratio.value), 0.01, 1e-12);
  EXPECT_NEAR(std::log(ratio.low), 0.01 - half, 1e-9);
  EXPECT_NEAR(std::log(ratio.high), 0.01 + half, 1e-9);
  EXPECT_EQ(ratio.count, 3);
}

// Ranks from tables of the sign test.
TEST(Statistics, TheMedianIntervalTakesOrderStatistics) {
  EXPECT_EQ(median_interval_rank(5, 0.95), 0U);
  EXPECT_EQ(median_interval_rank(6, 0.95), 1U);
  EXPECT_EQ(median_interval_rank(9, 0.95), 2U);
  EXPECT_EQ(median_interval_rank(12, 0.95), 3U);
  EXPECT_EQ(median_interval_rank(20, 0.95), 6U);
  std::vector<Block> blocks;
  for (int i = 1; i <= 12; ++i) {
    Block block;
    block.step_time_seconds = {{static_cast<double>(i)}};
    blocks.push_back(block);
  }
  EXPECT_EQ(*step_time(blocks, 0.95), (Estimate{6.5, 3, 10, 12}));
  EXPECT_FALSE(step_time({}, 0.95));
}

TEST(Statistics, DriftIsTheTrendPerHour) {
  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) {
    Block block;
    block.start_seconds = 10 * i;
    block.step_time_seconds = {{1.0 + 0.001 * i}};
    if (i == 4) block.step_time_seconds = {{5.0}};  // an outlier does not bend a Theil-Sen slope
    blocks.push_back(block);
  }
  EXPECT_NEAR(drift_per_hour(blocks), 0.0001 * 3600 / 1.005, 0.01);
  EXPECT_EQ(drift_per_hour({}), 0);
}

}  // namespace
}  // namespace dettax
