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
      EXPECT_EQ(to_string(cheapest_of(policy_costs(one))),
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
}

TEST(Economics, MoreTaxNeverMakesAlwaysCheaper) {
  double before = 0;
  for (const double overhead : {0.0, 0.01, 0.05, 0.1, 0.5}) {
    const double cost = policy_cost(defaults_of(4096, 1e-6, overhead), Policy::always);
    EXPECT_GE(cost, before);
    before = cost;
  }
}

// All inputs sure but those that are given.
DecisionInputs sure(const std::vector<Override>& overrides) {
  DecisionInputs in = inputs(overrides);
  for (DecisionInput& input : in.inputs) {
    if (!input.given) input.low = input.high = input.value;
  }
  return in;
}

TEST(Decision, ASkewedBandIsWeighedByItsMeanAndNotByItsPeak) {
  const DecisionInputs in = sure({{"gpus", "16384"},
                                  {"run_hours", "1440"},
                                  {"overhead_ratio", "0.15"},
                                  {"blocked_hours_fast", "{value: 1, low: 0.9, high: 60}"}});
  const Decision d = decide(in, 4000, 1);
  const double mean_hours = [&] {
    // never is linear in the one input that is open.
    Economics e = in.economics();
    const double one = policy_cost(e, Policy::never);
    e.blocked_hours_fast = 0;
    const double none = policy_cost(e, Policy::never);
    return (d.cost[0] - none) / (one - none);
  }();
  // Of a triangle over logarithms, peaked at log 1 between log 0.9 and log 60, in closed form.
  EXPECT_NEAR(mean_hours, 6.41, 0.3);
  EXPECT_EQ(d.central_cost[0], policy_cost(in.economics(), Policy::never));
  EXPECT_GT(d.cost[0], 1.3 * d.central_cost[0]);

  const Decision shipped = decide(
      load_decision_inputs(find_home() + "/configs/decisions/example.yaml", {{"gpus", "16384"}}),
      4000, 1);
  EXPECT_EQ(shipped.central_best, Policy::windows);
  EXPECT_EQ(shipped.best, Policy::always);
  EXPECT_THAT(shipped.sentence, HasSubstr("Run deterministically always"));
  EXPECT_THAT(shipped.sentence, HasSubstr("At the central values of the inputs \"windows\""));
}

TEST(Decision, WithoutAnyBandTheMeanIsTheCostAtTheCentralValues) {
  const DecisionInputs in =
      sure({{"gpus", "4096"}, {"run_hours", "1440"}, {"overhead_ratio", "0.04"}});
  const Decision d = decide(in, 50, 1);
  for (const size_t policy : {0U, 1U, 2U})
    EXPECT_NEAR(d.cost[policy] / d.central_cost[policy], 1, 1e-9);
  EXPECT_EQ(d.best, d.central_best);
  EXPECT_NEAR(d.central_break_even, 0.039, 5e-5);
}

TEST(Decision, AtEveryThresholdTheTwoPoliciesCostTheSame) {
  const std::vector<Override> open = {{"gpus", "4096"},
                                      {"run_hours", "1440"},
                                      {"overhead_ratio", "0.04"},
                                      {"delay_price_per_hour", "2000"}};
  const auto costs_at = [&](const std::string& input, double value) {
    std::vector<Override> there = open;
    there.emplace_back(input, std::to_string(value));
    return decide(inputs(there), 300, 1).cost;
  };
  const Decision d = decide(inputs(open), 300, 1);
  const PolicyCosts even = costs_at("overhead_ratio", d.break_even);
  EXPECT_NEAR(even[2] / even[0], 1, 1e-3);
  const PolicyCosts windows = costs_at("overhead_ratio", d.over_windows);
  EXPECT_NEAR(windows[2] / windows[1], 1, 1e-3);
  const PolicyCosts sized = costs_at("gpus", d.gpus_break_even);
  EXPECT_NEAR(sized[2] / sized[0], 1, 1e-3);
}

TEST(Economics, AnHourThatTheRunIsLongerDelaysTheProjectToo) {
  Economics e = defaults_of(4096, 1e-6, 0.05);
  const double before = policy_cost(e, Policy::always);
  e.blocked_hours_deterministic = 0;
  const double unblocked = policy_cost(e, Policy::always);
  EXPECT_LT(unblocked, before);
  e.delay_price_per_hour = 1000;
  EXPECT_NEAR(policy_cost(e, Policy::always) - unblocked, 1000 * 0.05 * 1440, 1e-3);
}

TEST(Decision, ATaxThatARunDidNotResolveIsNeverFreeAndHasNoValue) {
  DecisionInputs in = inputs({{"gpus", "64"}, {"run_hours", "720"}, {"overhead_ratio", "0"}});
  in.tax_unresolved = true;
  const Decision d = decide(in, 200, 1);
  EXPECT_THAT(d.sentence, testing::Not(HasSubstr("Always is free")));
  EXPECT_THAT(decision_json(d, in), HasSubstr("\"value_reason\": \"the run did not resolve it\""));
}

TEST(Decision, MachinesGetRatiosThatAreOneAtNoCostAndUnitsOfMoney) {
  const DecisionInputs in =
      inputs({{"gpus", "4096"}, {"run_hours", "1440"}, {"overhead_ratio", "0.04"}});
  const Decision d = decide(in, 100, 1);
  const std::string json = decision_json(d, in);
  EXPECT_THAT(json, HasSubstr("\"break_even_overhead_ratio\": 1.0"));
  EXPECT_THAT(json, HasSubstr("\"expected_cost_dollars\""));
  EXPECT_THAT(json, HasSubstr("\"always_saves_at_low_dollars\""));
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
  EXPECT_THAT(message({"price_per_gpu_hour", "1e308"}), HasSubstr("at most 1e+06"));
  EXPECT_THAT(message({"price_per_gpu_hour", "1e-300"}), HasSubstr("price_per_gpu_hour"));
  EXPECT_THAT(message({"window_share", "0"}), HasSubstr("windows of no time hold no anomalies"));
  EXPECT_THAT(message({"window_share", "1"}), HasSubstr("hold all anomalies"));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gem], value: 0.1}"}),
              HasSubstr("did you mean \"gemm\""));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gemm]}"}), HasSubstr("value"));
  EXPECT_THAT(message({"cheapest_subset", "{knobs: [gemm], value: -1}"}), HasSubstr("value"));
}

TEST(Decision, TheEndsOfWhatIsTakenGiveFiniteCosts) {
  for (const char* name : {"price_per_gpu_hour", "delay_price_per_hour", "blocked_hours_fast"}) {
    const Decision d = decide(inputs({{"gpus", "1e8"},
                                      {"run_hours", "1e6"},
                                      {"overhead_ratio", "1000"},
                                      {"anomalies_per_gpu_hour", "1"},
                                      {"window_share", "0"},
                                      {"window_hazard_share", "0"},
                                      {name, "1e6"}}),
                              50, 1);
    for (const double cost : d.cost) EXPECT_TRUE(std::isfinite(cost)) << name;
    EXPECT_TRUE(std::isfinite(d.break_even)) << name;
  }
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
  EXPECT_EQ(d.central_cost[2], policy_cost(e, Policy::always))
      << "the whole mode's tax is what it was";
  e.overhead_ratio = 0.005;
  EXPECT_EQ(d.cheapest->central_cost[2], policy_cost(e, Policy::always));
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
    if (point.overhead_ratio > d.break_even) {
      EXPECT_GT(point.cost[2], point.cost[0]);
    }
    if (point.overhead_ratio < d.break_even) {
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
