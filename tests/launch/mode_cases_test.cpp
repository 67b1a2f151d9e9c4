// cases/mode.md and cases/overhead.md through whole suites: needs the dettax program.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/arm_comparison.h"
#include "harness/launch/environment_audit.h"
#include "harness/measure/measure.h"
#include "tests/launch/case_run.h"

namespace dettax {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Mode01 = testing::CaseRun;
using Mode02 = testing::CaseRun;
using Mode03 = testing::CaseRun;
using Overhead01 = testing::CaseRun;

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";

TEST_F(Mode01, AVariableThatIsNotSetIsSetForTheChildAndSaid) {
  ::unsetenv(kWorkspace);
  const Record record = run("{label: a}", "[torchtitan-det]");
  const ArmResult& det = arm(record, "torchtitan-det");
  EXPECT_EQ(det.environment.at(kWorkspace), ":4096:8");
  EXPECT_EQ(det.engaged.at(kWorkspace), ":4096:8");
  EXPECT_FALSE(det.environment_before.contains(kWorkspace));
}

TEST(Mode01Audit, AValueThatIsReplacedIsKept) {
  ::setenv(kWorkspace, ":4096:2", 1);
  EXPECT_EQ(standing_values({{kWorkspace, ":4096:8"}, {"DETTAX_TEST_UNSET", "1"}}),
            (Variables{{kWorkspace, ":4096:2"}}));
  ::unsetenv(kWorkspace);
}

TEST_F(Mode01, AVariableThatDidNotArriveIsAModeThatDidNotEngage) {
  const auto wrapper = folder_.path() / "wrapper";
  std::ofstream(wrapper) << "#!/bin/sh\nunset CUBLAS_WORKSPACE_CONFIG\nexec " DETTAX_PROGRAM
                            " \"$@\"\n";
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  const Record record = run("{label: a}", "[torchtitan-det]", wrapper.string());
  EXPECT_EQ(record.verdict.reason_code, "mode_not_engaged");
  EXPECT_EQ(record.verdict.exit_code, 5);
  EXPECT_THAT(record.verdict.reason,
              HasSubstr("CUBLAS_WORKSPACE_CONFIG was to be :4096:8 and is (not set)"));
}

TEST(Mode01Audit, WhatTheChildSetsItselfComesTooLate) {
  constexpr const char* kLate = "DETTAX_TEST_LATE_SETTING";
  const Variables at_start = start_environment();
  ASSERT_FALSE(at_start.contains(kLate));
  EXPECT_EQ(found_setting(kLate, at_start), "(not set)");
  ::setenv(kLate, ":4096:8", 1);  // as a trainer might behind its first matmul
  EXPECT_EQ(found_setting(kLate, start_environment()), "(set too late: :4096:8)");
  ::unsetenv(kLate);
  ASSERT_TRUE(at_start.contains("PATH"));
  EXPECT_EQ(found_setting("PATH", at_start), at_start.at("PATH"));
  EXPECT_EQ(found_setting("PATH", {{"PATH", "/other"}}),
            "(changed too late: " + at_start.at("PATH") + ")");
}

TEST_F(Mode02, AnOpWithoutADeterministicVersionEndsItsArmApartFromDiverging) {
  const Record record = run(
      "{injections: [{kind: no_deterministic_version, arm: deterministic, rank: 1, step: 3, op: "
      "backward/layer1/attention}]}",
      "[deterministic]");
  EXPECT_EQ(record.verdict.reason_code, "not_runnable_deterministically");
  EXPECT_EQ(record.verdict.exit_code, 5);
  EXPECT_THAT(record.verdict.reason,
              HasSubstr("it ended step 3, rank 1, op backward/layer1/attention"));
  EXPECT_TRUE(record.taxes.empty());
  EXPECT_TRUE(arm(record, "fast").step_time_seconds);
}

TEST_F(Mode03, BothArmsAreReportedWithTheVariantsThatChanged) {
  const Record record =
      run("{injections: [{kind: nan, arm: deterministic, rank: 0, step: 1, op: "
          "forward/layer0/attention}]}",
          "[deterministic]");
  EXPECT_EQ(record.verdict.reason_code, "non_finite");
  EXPECT_THAT(record.verdict.reason, HasSubstr("step 1, rank 0, op forward/layer0/attention"));
  EXPECT_TRUE(record.taxes.empty());
  EXPECT_TRUE(arm(record, "fast").step_time_seconds);
  const auto& changed = arm(record, "deterministic").changed;
  std::vector<std::string> knobs;
  for (const VariantChange& change : changed) {
    knobs.push_back(change.knob);
    EXPECT_NE(change.fast, change.here) << change.knob;
    EXPECT_FALSE(change.ops.empty()) << change.knob;
  }
  EXPECT_THAT(knobs, Contains("attention"));
  EXPECT_THAT(knobs, Not(Contains("memory_fill")));  // off in both
  EXPECT_THAT(knobs, Not(Contains("moe")));          // nothing to act on
  EXPECT_THAT(arm(record, "control").changed, SizeIs(0));
}

TEST_F(Overhead01, TheFillOffRowWinsBackItsSecondsWithCountsAndTheSameBits) {
  const Record record =
      run("{label: a}", "[megatron-det, {base: megatron-det, knobs: {memory_fill: off}}]");
  ASSERT_THAT(record.contrasts, SizeIs(1));
  const Contrast& contrast = record.contrasts[0];
  EXPECT_EQ(contrast.arm, "megatron-det+memory_fill.off");
  EXPECT_EQ(contrast.against, "megatron-det");
  EXPECT_EQ(contrast.knob, "memory_fill");
  EXPECT_EQ(contrast.value, "off");
  EXPECT_EQ(contrast.bits, "equal");
  EXPECT_EQ(contrast.ratio.count, 3);

  const Fills& on = arm(record, "megatron-det").fills_per_step;
  const Fills& off = arm(record, "megatron-det+memory_fill.off").fills_per_step;
  EXPECT_GT(on.count, 0);
  EXPECT_GT(on.bytes, on.count);
  EXPECT_GT(on.seconds, 0);
  EXPECT_EQ(off.count, 0);
  EXPECT_EQ(off.bytes, 0);
  for (const ArmEvidence& evidence : record.evidence.arms) {
    if (evidence.arm.starts_with("megatron")) {
      EXPECT_TRUE(evidence.reproducible) << evidence.arm;
    }
  }
}

// Recorded times: steps of 200 ms that drift by rounds, some 17 ms of fills, and a delay of another making.
ArmResult recorded(const std::string& name, const std::string& fill, double added_seconds) {
  ArmResult out;
  out.arm = out.mode = name;
  out.knobs = {{"memory_fill", fill}};
  for (int round = 0; round < 8; ++round) {
    const double noise = added_seconds > 0 ? 0.0002 * (round % 3 - 1) : 0;
    Block block;
    block.round = round;
    block.step_time_seconds = {{0.200 + 0.001 * (round * 7 % 5) + added_seconds + noise}};
    out.blocks.push_back(block);
  }
  out.step_time_seconds = step_time(out.blocks, 0.95);
  return out;
}

Contrast row_of(double fill_seconds, double delay_seconds) {
  Record record;
  record.arms = {recorded("fast", "off", 0), recorded("det", "on", fill_seconds + delay_seconds),
                 recorded("det+memory_fill.off", "off", 0)};
  compare_arms(record, "nowhere", 0.95);
  return record.contrasts.at(0);
}

bool holds(const Estimate& interval, double value) {
  return interval.low <= value && value <= interval.high;
}

TEST(Overhead01Recorded, TheFillOffRowWinsBackTheSecondsOfTheFillsWithinItsInterval) {
  const Estimate& row = row_of(0.0169, 0).seconds_per_step;
  EXPECT_TRUE(holds(row, -0.0169)) << row.low << " to " << row.high;
  EXPECT_LT(row.high - row.low, 0.002) << "an interval that holds anything shows nothing";
}

TEST(Overhead01Recorded, ADelayOutsideTheFillsIsNotTakenForThem) {
  const Estimate& row = row_of(0.0169, 0.003).seconds_per_step;
  EXPECT_FALSE(holds(row, -0.0169)) << row.low << " to " << row.high;
}

TEST_F(Overhead01, ArmsThatDifferInTwoKnobsHaveNoRow) {
  const Record record =
      run("{label: a}",
          "[megatron-det, {base: megatron-det, knobs: {memory_fill: off, index_ops: "
          "purpose_built}}]");
  EXPECT_THAT(record.contrasts, SizeIs(0));
}

}  // namespace
}  // namespace dettax
