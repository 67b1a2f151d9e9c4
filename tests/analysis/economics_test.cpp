#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "results/analysis/csv.h"
#include "results/analysis/decision/decision.h"

namespace dettax {
namespace {

using testing::HasSubstr;

DecisionInputs inputs(const std::vector<Override>& overrides) {
  return load_decision_inputs("", overrides);
}

Economics defaults_of(double gpus, double anomalies, double overhead) {
  Economics e = inputs({}).economics();
  e.gpus = gpus;
  e.run_hours = 1440;
  e.anomalies_per_gpu_hour = anomalies;
  e.overhead_ratio = overhead;
  return e;
}

// Whether a value rounds to what was printed with so many decimals.
void expect_printed(double value, double printed, int decimals, const std::string& what) {
  const double scale = std::pow(10.0, decimals);
  EXPECT_NEAR(value, printed, 0.5 / scale * (1 + 1e-9)) << what;
}

TEST(Economics, TheWorkedExampleComesOutToTheDollar) {
  const Economics e = defaults_of(1024, 1e-6, 0.04);
  EXPECT_EQ(std::lround(anomaly_cost(e, false)), 33545);
  EXPECT_EQ(std::lround(anomaly_cost(e, true)), 4761);
  EXPECT_EQ(std::lround(policy_cost(e, Policy::never)), 49465);
  EXPECT_EQ(std::lround(policy_cost(e, Policy::always)), 145911);
  EXPECT_EQ(std::lround(policy_cost(e, Policy::windows)), 33615);
  EXPECT_NEAR(break_even_overhead(e), 0.0122, 5e-5);
}

TEST(Economics, PublishedExamplesComeOutToThePrintedDigits) {
  const CsvTable csv = CsvTable::read(find_home() + "/configs/published/econ_examples.csv");
  ASSERT_EQ(csv.rows(), 15U);
  for (size_t row = 0; row < csv.rows(); ++row) {
    const std::string at = csv.place(row);
    const double gpus = csv.need_number(row, "gpus");
    const double anomalies = csv.need_number(row, "lambda_per_GPU_h");
    const Economics e = defaults_of(gpus, anomalies, 0.04);
    expect_printed(hours_between_anomalies(e), csv.need_number(row, "cluster_MTBA_h"), 1, at);
    expect_printed(100 * break_even_overhead(e), csv.need_number(row, "break_even_overhead_pct"), 2,
                   at);
    expect_printed(anomalies * gpus * 1440, csv.need_number(row, "anomalies_in_60d"), 1, at);
    expect_printed(policy_cost(e, Policy::never) / 1e6, csv.need_number(row, "never_cost_M$"), 3,
                   at);
    for (const char* percent : {"4", "10", "15"}) {
      const Economics one = defaults_of(gpus, anomalies, std::stod(percent) / 100);
      const auto printed = [&](const std::string& policy) {
        return csv.need_number(row, policy + "_M$_at_" + percent + "pct");
      };
      expect_printed(policy_cost(one, Policy::always) / 1e6, printed("always"), 3, at);
      expect_printed(policy_cost(one, Policy::windows) / 1e6, printed("windows"), 3, at);
      EXPECT_EQ(to_string(best_policy(one)),
                csv.text(row, std::string("best_at_") + percent + "pct"))
          << at;
    }
  }
}

TEST(Economics, ATaxOfNothingMakesAlwaysFree) {
  for (const char* gpus : {"64", "4096", "100000"}) {
    const Decision d =
        decide(inputs({{"gpus", gpus}, {"run_hours", "720"}, {"overhead_ratio", "0"}}), 200, 1);
    EXPECT_EQ(d.best, Policy::always);
    // In all but the few draws where a deterministic anomaly takes longer than a fast one.
    EXPECT_GT(d.probability[2], 0.97);
    EXPECT_THAT(d.sentence, HasSubstr("Always is free"));
  }
  // A tax that was not told from 0 may cost something.
  const Decision unsure = decide(inputs({{"gpus", "64"},
                                         {"run_hours", "720"},
                                         {"overhead_ratio", "{value: 0, low: 0, high: 0.04}"}}),
                                 200, 1);
  EXPECT_THAT(unsure.sentence, testing::Not(HasSubstr("Always is free")));
  // The twin: a tax as large as any makes it dear.
  const Decision dear =
      decide(inputs({{"gpus", "64"}, {"run_hours", "720"}, {"overhead_ratio", "0.5"}}), 200, 1);
  EXPECT_EQ(dear.best, Policy::never);
}

TEST(Economics, AlwaysCostsAsMuchAsNeverNearTheBreakEven) {
  Economics e = defaults_of(4096, 1e-6, 0.04);
  e.overhead_ratio = break_even_overhead(e);
  // But for the anomalies that the longer run itself meets.
  EXPECT_NEAR(policy_cost(e, Policy::always) / policy_cost(e, Policy::never), 1, 0.01);
  e.overhead_ratio = always_over_windows_overhead(e);
  EXPECT_NEAR(policy_cost(e, Policy::always), policy_cost(e, Policy::windows),
              1e-6 * policy_cost(e, Policy::windows));
  Economics sized = defaults_of(4096, 1e-6, 0.04);
  sized.gpus = break_even_gpus(sized);
  EXPECT_NEAR(break_even_overhead(sized), 0.04, 1e-9);
}

TEST(Economics, MoreTaxNeverMakesAlwaysCheaper) {
  double before = 0;
  for (const double overhead : {0.0, 0.01, 0.05, 0.1, 0.5}) {
    const double cost = policy_cost(defaults_of(4096, 1e-6, overhead), Policy::always);
    EXPECT_GE(cost, before);
    before = cost;
  }
}

TEST(Decision, TheSameInputsGiveTheSameBytesAndOtherSeedsOthers) {
  const DecisionInputs in =
      inputs({{"gpus", "4096"}, {"run_hours", "1440"}, {"overhead_ratio", "0.05"}});
  EXPECT_EQ(decision_json(decide(in, 500, 1), in), decision_json(decide(in, 500, 1), in));
  EXPECT_NE(decision_json(decide(in, 500, 1), in), decision_json(decide(in, 500, 2), in));
}

TEST(Decision, ProbabilitiesAddUpAndBandsHoldTheirMiddle) {
  const Decision d = decide(
      inputs({{"gpus", "16384"}, {"run_hours", "1440"}, {"overhead_ratio", "0.05"}}), 2000, 3);
  EXPECT_NEAR(d.probability[0] + d.probability[1] + d.probability[2], 1, 1e-9);
  EXPECT_LE(d.break_even_band.p10, d.break_even_band.p50);
  EXPECT_LE(d.break_even_band.p50, d.break_even_band.p90);
  ASSERT_GE(d.tornado.size(), 2U);
  EXPECT_GE(d.tornado[0].swing(), d.tornado[1].swing());
}

TEST(Decision, WhatNobodyHasIsAskedFor) {
  EXPECT_THAT(inputs({}).missing(), testing::ElementsAre("gpus", "run_hours", "overhead_ratio"));
  EXPECT_THAT(inputs({{"gpus", "8"}, {"run_hours", "9"}, {"overhead_ratio", "0"}}).missing(),
              testing::IsEmpty());
  const auto sizes = by_size(inputs({}), 100, 1);
  ASSERT_EQ(sizes.size(), 5U);
  EXPECT_LT(sizes.front().break_even, sizes.back().break_even);
}

TEST(Decision, WrongInputsGetOneLineThatNamesThem) {
  const auto message = [](const Override& one) {
    try {
      inputs({one});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({"price_per_gpu_hour", "-1"}), HasSubstr("price_per_gpu_hour"));
  EXPECT_THAT(message({"escape_probability_fast", "1.5"}), HasSubstr("escape_probability_fast"));
  EXPECT_THAT(message({"gpu", "8"}), HasSubstr("did you mean \"gpus\""));
  EXPECT_THAT(message({"gpus", "many"}), HasSubstr("gpus"));
  EXPECT_THAT(message({"gpus", "{value: 4, low: 8, high: 9}"}), HasSubstr("low <= value <= high"));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gem], value: 0.1}"}),
              HasSubstr("did you mean \"gemm\""));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gemm]}"}), HasSubstr("value"));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gemm], value: -1}"}), HasSubstr("value"));
}

TEST(Decision, TheCheapestKnobsAreWeighedBesideTheWholeMode) {
  DecisionInputs in = inputs({{"gpus", "4096"}, {"run_hours", "1440"}, {"overhead_ratio", "0.05"}});
  EXPECT_FALSE(decide(in, 200, 1).cheapest.has_value());
  in.cheapest = KnobSubset{{"gemm", "attention"}, 0.005, 0.004, 0.006, "a run", ""};
  const Decision d = decide(in, 500, 1);
  ASSERT_TRUE(d.cheapest.has_value());
  EXPECT_EQ(d.best, Policy::windows);
  EXPECT_EQ(d.cheapest->best, Policy::always);
  Economics e = in.economics();
  EXPECT_EQ(d.cost[2], policy_cost(e, Policy::always)) << "the whole mode's tax is what it was";
  e.overhead_ratio = 0.005;
  EXPECT_EQ(d.cheapest->cost[2], policy_cost(e, Policy::always));
  EXPECT_EQ(d.cheapest->cost[0], d.cost[0]) << "never pays no tax";
  EXPECT_GT(d.cheapest->saved, 0);
  EXPECT_THAT(d.sentence, HasSubstr("With only gemm, attention set the bits stay equal"));
  EXPECT_THAT(decision_json(d, in), HasSubstr("\"cheapest_subset\": {"));
}

TEST(Decision, CostsOverTheTaxCrossWhereTheBreakEvenSays) {
  const DecisionInputs in =
      inputs({{"gpus", "16384"}, {"run_hours", "1440"}, {"overhead_ratio", "0.04"}});
  const Decision d = decide(in, 200, 1);
  const std::vector<CostPoint> curve = costs_by_tax(in, d, 41);
  ASSERT_EQ(curve.size(), 41U);
  EXPECT_GT(curve.back().overhead_ratio, d.break_even);
  for (const CostPoint& point : curve) {
    EXPECT_EQ(point.cost[0], d.cost[0]);
    // The longer run meets more anomalies, so that always loses a little before the break-even.
    if (point.overhead_ratio > d.break_even) {
      EXPECT_GT(point.cost[2], point.cost[0]);
    }
    if (point.overhead_ratio < 0.9 * d.break_even) {
      EXPECT_LT(point.cost[2], point.cost[0]);
    }
  }
}

TEST(Decision, TheShippedExampleRuns) {
  const DecisionInputs in =
      load_decision_inputs(find_home() + "/configs/decisions/example.yaml", {});
  EXPECT_THAT(in.missing(), testing::IsEmpty());
  const Decision d = decide(in, 2000, 1);
  EXPECT_THAT(d.sentence, HasSubstr("What decides most"));
}

}  // namespace
}  // namespace dettax
