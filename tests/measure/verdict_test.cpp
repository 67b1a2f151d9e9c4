#include "harness/measure/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/reason.h"
#include "results/run_folder.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;

Suite suite(std::optional<double> limit = 1.10) {
  Suite suite;
  Mode det;
  det.name = "deterministic";
  det.claims_reproducible = true;
  suite.fast.name = "fast";
  suite.modes = {det};
  suite.thresholds.max_overhead_ratio = limit;
  return suite;
}

Record judged(Record record, const Suite& by) {
  record.verdict = Verdict{};
  judge(record, by);
  return record;
}

TEST(Judge, UnderTheLimitPassesAndPublishesTheTax) {
  const Record record = judged(sample_record(), suite());
  EXPECT_EQ(record.verdict.reason_code, "within_limit");
  EXPECT_TRUE(record.taxes[0].published);
  EXPECT_THAT(
      record.verdict.reason,
      HasSubstr(
          "deterministic: +1.6 % (+1.0 % to +2.2 %, 95 % interval, n = 4 rounds), limit +10.0 %"));
}

TEST(Judge, AnEmulatedPrecisionPassesOnItsBitsAndHasNoTax) {
  Record record = sample_record();
  record.precision_note = "bf16 is emulated.";
  const Record judged_record = judged(record, suite(1.005));
  EXPECT_EQ(judged_record.verdict.reason_code, "emulated");
  EXPECT_EQ(judged_record.verdict.exit_code, 0);
  EXPECT_FALSE(judged_record.taxes[0].published);
  record.evidence.arms.clear();
  EXPECT_EQ(judged(record, suite()).verdict.reason_code, "no_evidence");
}

TEST(Judge, ALimitBelowTheSmallestDetectableTaxIsNotMet) {
  Record record = sample_record();
  record.taxes[0].overhead_ratio = {0.98, 0.96, 1.0, 11};
  record.taxes[0].control_ratio = Estimate{1.025, 0.963, 1.09, 11};
  record.taxes[0].min_detectable_overhead_ratio = 1.09;
  const Record blind = judged(record, suite(1.05));
  EXPECT_EQ(blind.verdict.reason_code, "not_resolved");
  EXPECT_THAT(blind.verdict.reason, HasSubstr("tells a tax from none only from +9.0 % on"));
  ASSERT_TRUE(blind.verdict.seconds_needed);
  EXPECT_GT(*blind.verdict.seconds_needed, 0);
  EXPECT_EQ(judged(record, suite(1.09)).verdict.reason_code, "within_limit");
  // What lies over the limit was seen.
  record.taxes[0].overhead_ratio = {1.08, 1.06, 1.1, 11};
  EXPECT_EQ(judged(record, suite(1.05)).verdict.reason_code, "over_limit");
}

TEST(Judge, ALimitOfNoTaxAtAllIsNeverShownToBeMet) {
  Record record = sample_record();
  record.taxes[0].overhead_ratio = {0.9, 0.89, 0.91, 4};
  const Record judged_record = judged(record, suite(1.0));
  EXPECT_EQ(judged_record.verdict.reason_code, "not_resolved");
  EXPECT_FALSE(judged_record.verdict.seconds_needed);
}

TEST(Judge, AModeThatClaimsNothingIsNotJudged) {
  Record nothing = sample_record();
  for (ArmResult& arm : nothing.arms) arm.claims_reproducible = false;
  const Record record = judged(nothing, suite(1.10));
  EXPECT_EQ(record.verdict.reason_code, "no_claim");
  EXPECT_EQ(record.verdict.exit_code, 3);
  EXPECT_FALSE(record.taxes[0].published);
  // Beside one that claims, it is neither judged nor published.
  Record two = sample_record();
  two.taxes.push_back(two.taxes[0]);
  two.taxes[1].arm = "loose";
  two.taxes[1].overhead_ratio = {1.2, 1.19, 1.21, 4};
  two = judged(two, suite(1.10));
  EXPECT_EQ(two.verdict.reason_code, "within_limit");
  EXPECT_TRUE(two.taxes[0].published);
  EXPECT_FALSE(two.taxes[1].published);
}

TEST(Judge, OverTheLimitFails) {
  EXPECT_EQ(judged(sample_record(), suite(1.005)).verdict.reason_code, "over_limit");
}

TEST(Judge, AnIntervalThatHoldsTheLimitSaysHowMuchTimeItWouldTake) {
  const Record record = judged(sample_record(), suite(1.014));
  EXPECT_EQ(record.verdict.reason_code, "not_resolved");
  ASSERT_TRUE(record.verdict.seconds_needed);
  // Half-width 0.62 % of 4 rounds, 0.23 % from the limit: t falls and the root grows until about 10 rounds; a round takes 0.22 s.
  EXPECT_GT(*record.verdict.seconds_needed, 4 * 0.2);
  EXPECT_LT(*record.verdict.seconds_needed, 16 * 0.25);
  EXPECT_THAT(record.verdict.reason, HasSubstr("more of measuring is likely to resolve it"));
}

TEST(Judge, NeverAdvisesAFractionOfASecondMore) {
  Record record = sample_record();
  // One round more would do, by a scatter that four rounds cannot know that well.
  const Record near = judged(record, suite(1.0101));
  ASSERT_EQ(near.verdict.reason_code, "not_resolved");
  EXPECT_GE(*near.verdict.seconds_needed, 0.2);  // a quarter of the rounds
  EXPECT_THAT(near.verdict.reason, HasSubstr(" About 1 s more of measuring is likely"));
}

TEST(Judge, ATaxOnTheLimitIsNotResolvedByTime) {
  const Record record = judged(sample_record(), suite(1.0163000001));
  EXPECT_EQ(record.verdict.reason_code, "not_resolved");
  EXPECT_FALSE(record.verdict.seconds_needed);
}

TEST(Judge, WithoutALimitTheIntervalHasToBeNarrow) {
  Suite narrow = suite(std::nullopt), wide = suite(std::nullopt);
  narrow.measure.target_half_width = 0.01;
  wide.measure.target_half_width = 0.002;
  EXPECT_EQ(judged(sample_record(), narrow).verdict.reason_code, "measured");
  const Record record = judged(sample_record(), wide);
  EXPECT_EQ(record.verdict.reason_code, "not_resolved");
  EXPECT_TRUE(record.verdict.seconds_needed);
}

TEST(Judge, ADeterministicArmThatDiffersVoidsItsTax) {
  Record record = sample_record();
  record.evidence.arms[1].reproducible = false;
  record.evidence.arms[1].scopes[1].equal = false;
  record.evidence.arms[1].scopes[1].first_difference = "step 1, rank 0, backward/head: dw differs";
  record = judged(record, suite());
  EXPECT_EQ(record.verdict.reason_code, "not_reproducible");
  EXPECT_EQ(record.verdict.exit_code, 5);
  EXPECT_FALSE(record.taxes[0].published);
  EXPECT_THAT(record.verdict.reason,
              HasSubstr("deterministic, relaunch: step 1, rank 0, backward/head: dw differs"));
}

TEST(Judge, WithoutEvidenceThereIsNoTax) {
  Record none = sample_record(), untested = sample_record();
  none.evidence.arms.clear();
  untested.evidence.arms[1].reproducible = false;
  for (ScopeEvidence& scope : untested.evidence.arms[1].scopes) scope.tested = scope.equal = false;
  for (const Record& record : {judged(none, suite()), judged(untested, suite())}) {
    EXPECT_EQ(record.verdict.reason_code, "no_evidence");
    EXPECT_EQ(record.verdict.exit_code, 5);
    EXPECT_FALSE(record.taxes[0].published);
  }
}

TEST(Judge, AModeThatDidNotEngageIsNoMeasurementOfIt) {
  Record record = sample_record();
  record.arms[2].engaged["gemm"] = "arrival";
  record = judged(record, suite());
  EXPECT_EQ(record.verdict.reason_code, "mode_not_engaged");
  EXPECT_THAT(record.verdict.reason,
              HasSubstr("deterministic: gemm was to be ordered and is arrival"));
  EXPECT_FALSE(record.taxes[0].published);
}

TEST(Judge, AControlThatDiffersMakesItInconclusive) {
  Record record = sample_record();
  record.taxes[0].control_ratio = Estimate{1.03, 1.02, 1.04, 4};
  for (double limit : {1.10, 1.005})
    EXPECT_EQ(judged(record, suite(limit)).verdict.reason_code, "control_differs");
}

TEST(Judge, ASmallCertainDifferenceOfTheControlWidensTheInterval) {
  Record record = sample_record();
  record.taxes[0].control_ratio = Estimate{1.008, 1.004, 1.012, 4};
  EXPECT_EQ(judged(record, suite(1.10)).verdict.reason_code, "within_limit");
  EXPECT_EQ(judged(sample_record(), suite(1.025)).verdict.reason_code, "within_limit");
  EXPECT_EQ(judged(record, suite(1.025)).verdict.reason_code, "not_resolved");
  EXPECT_GE(judged(record, suite(1.10)).taxes[0].min_detectable_overhead_ratio, 1.008);
}

TEST(Judge, AnArmThatDidNotTrainHasNoOverheadNumber) {
  Record record = sample_record();
  record.arms[2].failure_code = "non_finite";
  record.arms[2].failure = "step 3, rank 0, forward/layer1/attention: out is not finite";
  record = judged(record, suite());
  EXPECT_EQ(record.verdict.reason_code, "non_finite");
  EXPECT_EQ(record.verdict.status, Status::fail);
  EXPECT_FALSE(record.taxes[0].published);
  EXPECT_THAT(record.verdict.reason, HasSubstr("deterministic: step 3, rank 0"));
}

TEST(Judge, AnErrorStaysAnError) {
  Record record = sample_record();
  record.verdict = make_verdict("hang", "fast: rank 1.");
  judge(record, suite());
  EXPECT_EQ(record.verdict.reason_code, "hang");
  EXPECT_FALSE(record.taxes[0].published);
}

TEST(Judge, TooFewRoundsAreNoMeasurement) {
  Record record = sample_record();
  record.taxes.clear();
  EXPECT_EQ(judged(record, suite()).verdict.reason_code, "no_measurement");
}

TEST(Judge, TheWorseArmSpeaksForTheCase) {
  Suite two = suite(1.10);
  Mode invariant = two.modes[0];
  invariant.name = "invariant";
  two.modes.push_back(invariant);
  Record record = sample_record();
  record.taxes.push_back(record.taxes[0]);
  record.taxes[1].arm = "invariant";
  record.taxes[1].overhead_ratio = {1.2, 1.19, 1.21, 4};
  record.evidence.arms.push_back(record.evidence.arms[1]);
  record.evidence.arms[2].arm = "invariant";
  record = judged(record, two);
  EXPECT_EQ(record.verdict.reason_code, "over_limit");
  EXPECT_THAT(record.verdict.reason, HasSubstr("invariant: +20.0 %"));
}

TEST(Judge, ABlindCaseKeepsItsVerdictAndSaysSo) {
  Record record = sample_record();
  record.evidence.fast_differed = false;
  record.evidence.blindness = "there is nothing to pay for, or the case cannot show it.";
  record = judged(record, suite());
  EXPECT_EQ(record.verdict.reason_code, "within_limit");
  EXPECT_THAT(record.verdict.reason, HasSubstr("nothing to pay for"));
}

TEST(Judge, JudgingTwiceGivesTheSameBytes) {
  Record broken = sample_record(), differs = sample_record(), blind = sample_record(),
         biased = sample_record();
  broken.arms[0].failure_code = "rank_crashed";
  differs.evidence.arms[1].reproducible = false;
  blind.evidence.fast_differed = false;
  blind.evidence.blindness = "blind.";
  biased.taxes[0].control_ratio = Estimate{1.008, 1.004, 1.012, 4};
  for (Record record : {sample_record(), broken, differs, blind, biased}) {
    for (double limit : {1.10, 1.014}) {
      Record again = judged(record, suite(limit));
      const std::string once = to_json(again);
      judge(again, suite(limit));
      EXPECT_EQ(to_json(again), once);
    }
  }
}

}  // namespace
}  // namespace dettax
