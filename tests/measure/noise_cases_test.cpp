// Cases noise-01, noise-02, noise-04: what users met, see the ids.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/robust.h"
#include "harness/measure/noise.h"
#include "harness/measure/warmup.h"
#include "tests/measure/simulated_arm.h"

namespace dettax {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Blocks of two arms in the order given by letters, `steps` steps each: for orders that the real loop never makes.
struct TwoArms {
  std::vector<Block> a, b;
};
TwoArms run_in_order(const std::string& order, int rounds, int steps, SimulatedArm& a,
                     SimulatedArm& b, SimulatedTime& time) {
  TwoArms out;
  int position = 0;
  for (int round = 0; round < rounds; ++round) {
    for (char letter : order) {
      const double start = time.seconds;
      Block block = (letter == 'A' ? a : b).run_steps(steps);
      block.round = round;
      block.position = position++;
      block.start_seconds = start;
      (letter == 'A' ? out.a : out.b).push_back(block);
    }
  }
  return out;
}

TEST(Noise01, WarmUpIsLeftOutByAStatedTestAndReported) {
  const std::vector<double> rate = {31.0,  201.5, 208.8, 209.9, 210.2,
                                    210.6, 209.8, 210.4, 210.7, 210.5};
  const size_t left_out = warmup_length(rate);
  EXPECT_EQ(left_out, 2U);
  EXPECT_NEAR(median({rate.begin() + static_cast<std::ptrdiff_t>(left_out), rate.end()}), 210.3,
              1e-9);
}

TEST(Noise01, ASteadySeriesHasNoWarmUpAndAnEmptyOneNoneEither) {
  EXPECT_EQ(warmup_length(std::vector<double>{5.0, 5.01, 4.99, 5.0}), 0U);
  EXPECT_EQ(warmup_length(std::vector<double>{}), 0U);
  EXPECT_FALSE(is_steady(std::vector<double>{1, 1, 1}, 2));
  EXPECT_TRUE(is_steady(std::vector<double>{9, 2, 1, 1, 1, 1}, 2));
  EXPECT_FALSE(is_steady(std::vector<double>{9, 2, 1.5, 1.2, 1.1, 1.0}, 2));
}

TEST(Noise01, TheLoopWarmsUpUntilTheStepsAreSteadyAndKeepsThoseTimesApart) {
  Dice dice(1);
  SimulatedTime time;
  int warm = 0;
  const Noise slow_start = [&warm](Dice& d, const SimulatedTime&) {
    return (warm < 6 ? 1.0 + 1.0 / ++warm : 1.0) * std::exp(0.001 * d.normal());
  };
  SimulatedArm fast("fast", 0.05, slow_start, dice, time),
      other("deterministic", 0.05, lognormal(0.001), dice, time);
  MeasureSettings settings;
  const Measurement m = measure({&fast, &other}, settings, 1, time.clock(), {});
  EXPECT_GT(m.warmup_step_seconds[0].size(), 6U);
  EXPECT_EQ(m.warmup_step_seconds[1].size(), 4U);
  EXPECT_TRUE(m.unsteady_arms.empty());
  EXPECT_NEAR(step_time(m.blocks[0], 0.95)->value, 0.05, 0.001);
}

TEST(Noise01, AnArmThatNeverGetsSteadyIsNamed) {
  Dice dice(1);
  SimulatedTime time;
  const Noise ever_faster = [](Dice&, const SimulatedTime& t) {
    return std::exp(-0.05 * static_cast<double>(t.steps));
  };
  SimulatedArm fast("fast", 0.05, ever_faster, dice, time),
      other("deterministic", 0.05, lognormal(0.001), dice, time);
  MeasureSettings settings;
  settings.rounds_max = 3;
  const Measurement m = measure({&fast, &other}, settings, 1, time.clock(), {});
  EXPECT_EQ(m.warmup_step_seconds[0].size(), 20U);
  EXPECT_EQ(m.unsteady_arms, (std::vector<std::string>{"fast"}));
}

TEST(Noise02, OneArmAfterTheOtherWarnsOfDriftAndAbbaHasNone) {
  for (const char* order : {"AB", "ABBA"}) {
    Dice dice(1);
    SimulatedTime time;
    SimulatedArm a("fast", 0.1, drifting(0.0005, 0.001), dice, time),
        b("deterministic", 0.1, drifting(0.0005, 0.001), dice, time);
    if (std::string(order) == "AB") {
      // 100 steps of A, then 100 of B; blocks of 10 are paired as a reader of two logs would.
      TwoArms runs;
      for (SimulatedArm* arm : {&a, &b}) {
        for (int i = 0; i < 10; ++i) {
          const double start = time.seconds;
          Block block = arm->run_steps(10);
          block.round = i;
          block.start_seconds = start;
          (arm == &a ? runs.a : runs.b).push_back(block);
        }
      }
      const auto tax = estimate_tax("deterministic", runs.b, runs.a, {}, 0.95);
      EXPECT_GT(tax->overhead_ratio.low, 1.03) << "the drift is in the ratio,";
      EXPECT_THAT(tax->warnings, Contains(HasSubstr("drift: fast's step time changed by +4")))
          << "so it must not stand without a word";
      EXPECT_THAT(tax->warnings,
                  Contains(HasSubstr("drift: deterministic's step time changed by +4")));
      EXPECT_THAT(tax->warnings, Contains(HasSubstr("ran one after the other")));
    } else {
      const TwoArms runs = run_in_order("ABBA", 5, 10, a, b, time);
      const auto tax = estimate_tax("deterministic", runs.b, runs.a, {}, 0.95);
      EXPECT_NEAR(tax->overhead_ratio.value, 1.0, 0.002);
      EXPECT_LE(tax->overhead_ratio.low, 1.0);
      EXPECT_GE(tax->overhead_ratio.high, 1.0);
      EXPECT_THAT(tax->warnings, Not(Contains(HasSubstr("ran one after the other"))));
    }
  }
}

// Share of A/A pairs called different, in an order.
double false_alarm_ratio(const std::string& order, const std::function<Noise()>& noise, int pairs) {
  int alarms = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    Dice dice(static_cast<uint64_t>(pair) + 1);
    SimulatedTime time;
    const Noise machine = noise();
    const Noise shared = [&](Dice& d, const SimulatedTime& t) { return machine(d, t); };
    SimulatedArm a("fast", 0.1, shared, dice, time), b("control", 0.1, shared, dice, time);
    const TwoArms runs = run_in_order(order, 8, 5, a, b, time);
    const auto ratio = paired_ratio(runs.b, runs.a, 0.95);
    alarms += ratio->low > 1 || ratio->high < 1;
  }
  return static_cast<double>(alarms) / pairs;
}

TEST(Noise04, AbbaKeepsFalseAlarmsWithinAlphaWhereAabbDoesNot) {
  constexpr int kPairs = 1000;
  const double allowed = 0.05 + 3 * std::sqrt(0.05 * 0.95 / kPairs);
  const auto drift = [] { return drifting(0.001, 0.002); };
  const auto peaks = [] { return bimodal(0.05, 0.002); };
  EXPECT_LE(false_alarm_ratio("ABBA", drift, kPairs), allowed);
  EXPECT_LE(false_alarm_ratio("ABBA", peaks, kPairs), allowed);
  EXPECT_LE(false_alarm_ratio("AABB", peaks, kPairs), allowed);
  EXPECT_GT(false_alarm_ratio("AABB", drift, kPairs), 0.5)
      << "the order must matter, else this shows nothing";
}

TEST(Noise04, TheMinimumDetectableOverheadIsWhatATestOfThatPowerDetects) {
  constexpr int kPairs = 400;
  double detectable = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    Dice dice(static_cast<uint64_t>(pair) + 1);
    SimulatedTime time;
    SimulatedArm a("fast", 0.1, lognormal(0.02), dice, time),
        b("control", 0.1, lognormal(0.02), dice, time);
    const TwoArms runs = run_in_order("ABBA", 12, 5, a, b, time);
    detectable += min_detectable_ratio(runs.b, runs.a, 0.95) / kPairs;
  }
  int seen = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    Dice dice(static_cast<uint64_t>(pair) + 1001);
    SimulatedTime time;
    SimulatedArm a("fast", 0.1, lognormal(0.02), dice, time),
        b("deterministic", 0.1 * detectable, lognormal(0.02), dice, time);
    const TwoArms runs = run_in_order("ABBA", 12, 5, a, b, time);
    seen += paired_ratio(runs.b, runs.a, 0.95)->low > 1;
  }
  EXPECT_NEAR(static_cast<double>(seen) / kPairs, 0.8, 0.08);
}

TEST(Noise, AnOutlyingRoundStaysInTheIntervalAndIsNamed) {
  std::vector<Block> fast, det;
  for (int round = 0; round < 8; ++round) {
    Block block;
    block.round = round;
    block.start_seconds = round;
    block.step_time_seconds = {{0.1 + 0.0001 * round, 0.1, 0.1}};
    fast.push_back(block);
    block.start_seconds += 0.5;
    const double slow = round == 5 ? 0.13 : 0.1;
    block.step_time_seconds = {{slow, slow, slow}};
    det.push_back(block);
  }
  EXPECT_NEAR(paired_ratio(det, fast, 0.95)->value, std::pow(1.3, 1.0 / 8), 0.001);
  EXPECT_THAT(noise_warnings("deterministic", det, fast),
              Contains(HasSubstr("round 5 has a ratio of 1.300 against 1.000 elsewhere")));
}

}  // namespace
}  // namespace dettax
