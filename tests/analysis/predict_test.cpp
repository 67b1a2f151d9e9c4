#include "results/analysis/projection/predict.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "results/analysis/projection/fit.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;

MeasuredLayout layout(const std::string& name, int dp, int tp, int pp, int64_t length) {
  MeasuredLayout one;
  one.name = name;
  one.plan.model = load_model("gpt-small");
  one.plan.layout.dp = dp;
  one.plan.layout.tp = tp;
  one.plan.layout.pp = pp;
  one.plan.precision = Precision::fp32;
  one.plan.batch = {1, 4, length};
  one.plan.software.tensor_overlap = one.plan.software.bulk_overlap = false;
  one.plan.software.data_overlap = one.plan.software.send_overlap = false;
  one.cores = 2;
  one.calibration = one.plan.ranks() <= 2;
  return one;
}

// Layouts as a machine of these efficiencies would run them.
std::vector<MeasuredLayout> made(const Hardware& machine) {
  std::vector<MeasuredLayout> all = {
      layout("a", 1, 1, 1, 128),   layout("b", 1, 1, 1, 512),     layout("c", 2, 1, 1, 128),
      layout("d", 1, 2, 1, 128),   layout("e", 1, 1, 2, 128),     layout("f", 1, 2, 1, 512),
      layout("dp4", 4, 1, 1, 256), layout("mixed", 2, 2, 1, 256), layout("pp4", 1, 1, 4, 256)};
  for (MeasuredLayout& one : all) {
    const double seconds = layout_seconds(machine, one);
    one.step_seconds = {seconds, seconds, seconds, 4};
  }
  return all;
}

Hardware slower_machine() {
  Hardware machine = load_hardware("local");
  machine.efficiency.gemm_ratio = 0.35;
  machine.efficiency.link_ratio = 0.3;
  machine.efficiency.step_seconds = 0.004;
  machine.efficiency.collective_seconds = 40e-6;
  return machine;
}

TEST(Predictions, LargerLayoutsOfAMadeMachineComeOut) {
  const LayoutPrediction p = predict_layouts(load_hardware("local"), made(slower_machine()));
  ASSERT_EQ(p.judged.size(), 3U);
  EXPECT_EQ(p.calibration.size(), 6U);
  EXPECT_LT(p.errors.mean_absolute, 0.03);
  EXPECT_NEAR(p.efficiency.gemm_ratio, 0.35, 0.03);
}

TEST(Predictions, WhatIsJudgedTakesNoPartInTheFit) {
  std::vector<MeasuredLayout> layouts = made(slower_machine());
  const LayoutPrediction before = predict_layouts(load_hardware("local"), layouts);
  for (MeasuredLayout& one : layouts) {
    if (!one.calibration) one.step_seconds.value *= 2;
  }
  const LayoutPrediction after = predict_layouts(load_hardware("local"), layouts);
  EXPECT_EQ(fitted_values(before), fitted_values(after));
  EXPECT_NEAR(after.errors.mean_absolute, 0.5, 0.02) << "and the error is seen";
  EXPECT_NEAR(after.errors.bias, -0.5, 0.02);
  // The twin: what is calibrated on does change the fit.
  layouts.front().step_seconds.value *= 2;
  EXPECT_NE(fitted_values(predict_layouts(load_hardware("local"), layouts)), fitted_values(before));
}

TEST(Predictions, WhatStandsAtItsBoundIsNamed) {
  LayoutPrediction p;
  p.efficiency = load_hardware("local").efficiency;
  p.efficiency.link_ratio = 1;
  EXPECT_THAT(fitted_at_bounds(p), testing::Not(testing::Contains("link_ratio")));
  p.efficiency.link_ratio = 5;
  EXPECT_THAT(fitted_at_bounds(p), testing::Contains("link_ratio"));
}

TEST(Predictions, RanksThatShareCoresTakeTheirCommonWork) {
  const Hardware machine = slower_machine();
  MeasuredLayout four = layout("dp4", 4, 1, 1, 256);
  const double shared = layout_seconds(machine, four);
  four.cores = 4;
  const double own = layout_seconds(machine, four);
  EXPECT_NEAR(shared / own, 2, 0.01);
  four.cores = 0;
  EXPECT_EQ(layout_seconds(machine, four), own);
  // A pipeline's waits are filled by other stages.
  MeasuredLayout stages = layout("pp4", 1, 1, 4, 256);
  const double stages_shared = layout_seconds(machine, stages);
  stages.cores = 4;
  EXPECT_LT(stages_shared / layout_seconds(machine, stages), 1.9);
}

TEST(Predictions, TooFewLayoutsAreRefusedInOneLine) {
  std::vector<MeasuredLayout> layouts = made(slower_machine());
  for (MeasuredLayout& one : layouts) one.calibration = true;
  EXPECT_THROW(predict_layouts(load_hardware("local"), layouts), Error);
  for (MeasuredLayout& one : layouts) one.calibration = false;
  EXPECT_THROW(predict_layouts(load_hardware("local"), layouts), Error);
}

TEST(Predictions, ARecordIsReadAndWhatIsNoSpeedIsLeftOut) {
  Record record = sample_record();
  EXPECT_EQ(layout_refusal(record), "");
  const MeasuredLayout one = measured_layout(record);
  EXPECT_EQ(one.name, record.case_id);
  EXPECT_EQ(one.cores, 2);
  EXPECT_FALSE(one.plan.software.data_overlap);
  EXPECT_NEAR(one.other_load_ratio, 0.02, 1e-12);
  record.precision_note = "emulated";
  EXPECT_THAT(layout_refusal(record), HasSubstr("emulated"));
  record = sample_record();
  record.arms.clear();
  EXPECT_THAT(layout_refusal(record), HasSubstr("no step time"));
}

TEST(PatternSearches, FindTheBottomOfABowlAndStayInTheirRanges) {
  const auto bowl = [](const std::vector<double>& x) {
    return std::pow(std::log(x[0] / 3), 2) + std::pow(std::log(x[1] / 5), 2);
  };
  const FitResult found = pattern_search({1, 1}, {{0.1, 10}, {0.1, 4}}, bowl);
  EXPECT_NEAR(found.values[0], 3, 0.02);
  EXPECT_EQ(found.values[1], 4);
}

}  // namespace
}  // namespace dettax
