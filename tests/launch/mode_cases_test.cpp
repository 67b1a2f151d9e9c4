// cases/mode.md and cases/overhead.md through whole suites: needs the dettax program.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/environment_audit.h"
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
  EXPECT_LE(contrast.seconds_per_step.low, contrast.seconds_per_step.value);
  EXPECT_LE(contrast.seconds_per_step.value, contrast.seconds_per_step.high);

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

TEST_F(Overhead01, ArmsThatDifferInTwoKnobsHaveNoRow) {
  const Record record =
      run("{label: a}",
          "[megatron-det, {base: megatron-det, knobs: {memory_fill: off, index_ops: "
          "purpose_built}}]");
  EXPECT_THAT(record.contrasts, SizeIs(0));
}

}  // namespace
}  // namespace dettax
