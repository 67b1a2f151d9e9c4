#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/run_folder.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using testing::HasSubstr;

void scale(Estimate& estimate, double by) {
  estimate.value *= by;
  estimate.low *= by;
  estimate.high *= by;
}

const ComparisonRow& row(const Comparison& comparison, const std::string& arm,
                         const std::string& quantity) {
  for (const ComparisonRow& one : comparison.rows) {
    if (one.arm == arm && one.quantity == quantity) return one;
  }
  throw std::runtime_error("no such row");
}

TEST(CompareRuns, ARunAgainstItselfPasses) {
  const Comparison same = compare_runs({sample_record()}, {sample_record()}, {});
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_EQ(same.rows.size(), 5U);
  for (const ComparisonRow& one : same.rows) EXPECT_EQ(one.status, Status::pass) << one.words;
}

TEST(CompareRuns, SlowerAndFasterAreBothFlagged) {
  for (double by : {1.20, 0.80}) {
    Record changed = sample_record();
    scale(*changed.arms[2].step_time_seconds, by);
    const Comparison comparison = compare_runs({sample_record()}, {changed}, {});
    EXPECT_EQ(comparison.exit_code, 1);
    EXPECT_EQ(row(comparison, "deterministic", "step_time_seconds").status, Status::fail);
    EXPECT_EQ(row(comparison, "fast", "step_time_seconds").status, Status::pass);
  }
}

TEST(CompareRuns, OneStepWithinIntervalAndToleranceIsNoChange) {
  Record changed = sample_record();
  scale(*changed.arms[2].step_time_seconds, 1.02);
  EXPECT_EQ(compare_runs({sample_record()}, {changed}, {}).exit_code, 0);
}

// overhead-03, second half: which side moved against the baseline.
TEST(CompareRuns, Overhead03SaysWhichSideMoved) {
  Record slower_det = sample_record(), faster_fast = sample_record();
  scale(*slower_det.arms[2].step_time_seconds, 1.16);
  scale(slower_det.taxes[0].overhead_ratio, 1.16);
  scale(*faster_fast.arms[0].step_time_seconds, 1 / 1.16);
  scale(faster_fast.taxes[0].overhead_ratio, 1.16);
  const auto words = [](const Record& fresh) {
    return row(compare_runs({sample_record()}, {fresh}, {}), "deterministic", "overhead_ratio")
        .words;
  };
  EXPECT_THAT(words(slower_det), HasSubstr("(deterministic got slower by 16.0 %)"));
  EXPECT_THAT(words(faster_fast), HasSubstr("(fast got faster by 13.8 %)"));
}

TEST(CompareRuns, AnIntervalTooWideToShowAChangeIsInconclusive) {
  Record noisy = sample_record();
  noisy.arms[2].step_time_seconds->low *= 0.8;
  noisy.arms[2].step_time_seconds->high *= 1.2;
  const Comparison comparison = compare_runs({sample_record()}, {noisy}, {});
  EXPECT_EQ(row(comparison, "deterministic", "step_time_seconds").status, Status::inconclusive);
  EXPECT_EQ(comparison.exit_code, 3);
}

TEST(CompareRuns, LostEvidenceComesBeforeEverythingElse) {
  Record lost = sample_record();
  lost.evidence.arms[1].reproducible = false;
  scale(*lost.arms[2].step_time_seconds, 1.5);
  EXPECT_EQ(compare_runs({sample_record()}, {lost}, {}).exit_code, 5);
}

Record not_reproducible(const char* code = "not_reproducible") {
  Record record = sample_record();
  record.evidence.arms[1].reproducible = false;
  record.evidence.arms[1].scopes[0].equal = false;
  record.evidence.arms[1].scopes[0].first_difference = "step 0: dw differs";
  record.taxes[0].published = false;
  record.verdict = make_verdict(code, "deterministic.");
  return record;
}

TEST(CompareRuns, AnArmThatIsVoidInBothRunsStaysVoid) {
  const Comparison comparison = compare_runs({not_reproducible()}, {not_reproducible()}, {});
  EXPECT_EQ(comparison.exit_code, 5);
  EXPECT_EQ(row(comparison, "deterministic", "evidence").words,
            "not reproducible, as before: its speed stays void; same_process: step 0: dw differs");
  EXPECT_EQ(row(comparison, "deterministic", "overhead_ratio").status, Status::fail);
}

TEST(CompareRuns, AnArmThatClaimsNothingOwesNoEvidence) {  // twin of the above
  Record record = not_reproducible("no_claim");
  record.arms[2].claims_reproducible = false;
  EXPECT_EQ(compare_runs({record}, {record}, {}).exit_code, 0);
}

TEST(CompareRuns, AModeThatEngagedInNeitherRunIsVoid) {
  Record record = sample_record();
  record.taxes[0].published = false;
  record.verdict = make_verdict("mode_not_engaged", "deterministic.");
  EXPECT_EQ(compare_runs({record}, {record}, {}).exit_code, 5);
  record.verdict = make_verdict("emulated", "bf16 is emulated.");
  EXPECT_EQ(compare_runs({record}, {record}, {}).exit_code, 0);
}

TEST(CompareRuns, TheSameCaseTwiceMustGiveEqualLedgers) {
  Record other = sample_record();
  other.evidence.arms[1].ledger_digest = std::string(32, 'c');
  const Comparison comparison = compare_runs({sample_record()}, {other}, {});
  EXPECT_EQ(comparison.exit_code, 5);
  EXPECT_THAT(row(comparison, "deterministic", "evidence").words,
              HasSubstr("the ledgers of the two runs differ: " + std::string(32, 'b')));
  EXPECT_EQ(row(compare_runs({other}, {other}, {}), "deterministic", "evidence").words,
            "reproducible as before, and both records have the same digest of its ledger");
  other.environment.cpu_model = "Another CPU";
  const Comparison forced = compare_runs({sample_record()}, {other}, {0.02, true});
  EXPECT_EQ(forced.exit_code, 0);
  EXPECT_THAT(row(forced, "deterministic", "evidence").words, HasSubstr("as they may"));
}

TEST(CompareRuns, TheFastArmsLedgersMayDiffer) {
  Record other = sample_record();
  other.evidence.arms[0].ledger_digest = std::string(32, 'c');
  EXPECT_EQ(compare_runs({sample_record()}, {other}, {}).exit_code, 0);
}

// The step time of deterministic against one known exactly.
ComparisonRow ratio_of(double value, double low, double high) {
  Record base = sample_record(), fresh = sample_record();
  base.arms[2].step_time_seconds = Estimate{1, 1, 1, 8};
  fresh.arms[2].step_time_seconds = Estimate{value, low, high, 8};
  return row(compare_runs({base}, {fresh}, {}), "deterministic", "step_time_seconds");
}

TEST(CompareRuns, AChangeThatMayLieWithinTheToleranceIsInconclusive) {
  for (const double sign : {1.0, -1.0}) {
    const double near = 1 + 0.0099 * sign, far = 1 + 0.0909 * sign;
    const ComparisonRow found = ratio_of(1 + 0.05 * sign, std::min(near, far), std::max(near, far));
    EXPECT_EQ(found.status, Status::inconclusive);
    EXPECT_EQ(found.words, "a change, perhaps within the tolerance of 2.0 %, perhaps of 9.1 %");
  }
}

TEST(CompareRuns, AChangeWithinTheToleranceIsSaidAndPasses) {
  const ComparisonRow found = ratio_of(1.01, 1.005, 1.015);
  EXPECT_EQ(found.status, Status::pass);
  EXPECT_EQ(found.words, "a change within the tolerance");
  EXPECT_EQ(ratio_of(1.0, 0.985, 1.015).words, "no change beyond the tolerance");
}

TEST(CompareRuns, WhatCouldHideIsTheFarEndOfTheInterval) {
  EXPECT_EQ(ratio_of(1.05, 0.99, 1.12).words, "no change shown, but one of 12.0 % could hide");
  EXPECT_EQ(ratio_of(0.95, 0.88, 1.01).words, "no change shown, but one of 12.0 % could hide");
  EXPECT_EQ(ratio_of(1.02, 0.99, 1.05).words, "no change shown; one of 5.0 % at most could hide");
}

Record without_measurement(const char* code) {
  Record record;
  record.case_id = sample_record().case_id;
  record.verdict = make_verdict(code, "");
  return record;
}

TEST(CompareRuns, ACaseThatNeitherRunMeasuredIsARow) {
  const Record incomplete = without_measurement("incomplete"),
               skipped = without_measurement("refused");
  const Comparison missing = compare_runs({incomplete}, {incomplete}, {});
  EXPECT_EQ(missing.exit_code, 4);
  ASSERT_EQ(missing.rows.size(), 1U);
  EXPECT_THAT(missing.rows[0].words, HasSubstr("not measured in either run: The case was not run"));
  EXPECT_EQ(compare_runs({skipped}, {skipped}, {}).exit_code, 77);
  Record passed = sample_record();
  passed.case_id = "another";
  EXPECT_EQ(compare_runs({skipped, passed}, {skipped, passed}, {}).exit_code, 0);
  EXPECT_EQ(compare_runs({incomplete, passed}, {incomplete, passed}, {}).exit_code, 4);
  EXPECT_THAT(compare_runs({sample_record()}, {incomplete}, {}).rows.at(0).words,
              HasSubstr("not measured in the new run"));
}

TEST(CompareRuns, AnotherTextIsRefusedAndTheSameAtAnotherPlaceIsNot) {
  Record moved = sample_record(), other = sample_record();
  moved.planned.data.path = "elsewhere.txt";
  other.planned.data.hash = std::string(32, '0');
  EXPECT_EQ(compare_runs({sample_record()}, {moved}, {}).exit_code, 0);
  const Comparison refused = compare_runs({sample_record()}, {other}, {});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.provenance_differences,
              testing::ElementsAre("text of tiny.fp32.dp2.t1.b8x64: 2048 bytes, hash " +
                                   std::string(32, 'd') + " against 2048 bytes, hash " +
                                   std::string(32, '0')));
}

TEST(CompareRuns, AnotherMachineIsRefusedUnlessForced) {
  Record other = sample_record();
  other.environment.cpu_model = "Another CPU";
  other.environment.variables["NCCL_ALGO"] = "Tree";
  const Comparison refused = compare_runs({sample_record()}, {other}, {});
  EXPECT_TRUE(refused.rows.empty());
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.provenance_differences,
              testing::ElementsAre("cpu_model: Example CPU against Another CPU",
                                   "NCCL_ALGO: Ring against Tree"));
  const Comparison forced = compare_runs({sample_record()}, {other}, {0.02, true});
  EXPECT_EQ(forced.rows.size(), 5U);
  EXPECT_EQ(forced.provenance_differences.size(), 2U);
}

TEST(CompareRuns, AnotherSeedOrModeIsRefused) {
  Record seed = sample_record(), mode = sample_record();
  seed.planned.seed = 3;
  mode.arms[2].mode_hash = "0000000000000000";
  EXPECT_EQ(compare_runs({sample_record()}, {seed}, {}).exit_code, 4);
  EXPECT_EQ(compare_runs({sample_record()}, {mode}, {}).exit_code, 4);
}

TEST(CompareRuns, AMissingCaseArmOrNumberIsNoPass) {
  EXPECT_EQ(compare_runs({sample_record()}, {}, {}).exit_code, 4);
  EXPECT_EQ(compare_runs({}, {}, {}).exit_code, 4);
  Record fewer = sample_record(), unpublished = sample_record();
  fewer.arms.pop_back();
  unpublished.taxes[0].published = false;
  EXPECT_EQ(compare_runs({sample_record()}, {fewer}, {}).exit_code, 4);
  EXPECT_EQ(compare_runs({sample_record()}, {unpublished}, {}).exit_code, 4);
}

TEST(Reasons, EveryCodeGoesWithOneStatusAndExitCode) {
  std::set<std::string_view> codes;
  for (const ReasonInfo& info : reason_table()) {
    EXPECT_TRUE(codes.insert(info.code).second) << info.code;
    const bool pass = info.status == Status::pass;
    EXPECT_EQ(pass, info.exit_code == ExitCode::pass) << info.code;
    EXPECT_EQ(info.status == Status::inconclusive, info.exit_code == ExitCode::inconclusive)
        << info.code;
    EXPECT_EQ(info.status == Status::skipped, info.exit_code == ExitCode::skipped) << info.code;
  }
  EXPECT_THROW(reason_info("nonsense"), Error);
}

TEST(Reasons, ACaseThatWasNotExactSpeaksForTheRun) {
  Record passed = sample_record(), slow = sample_record(), broken = sample_record();
  slow.verdict = make_verdict("over_limit", "");
  broken.verdict = make_verdict("not_reproducible", "");
  EXPECT_EQ(combined_exit_code({passed, slow, broken}), ExitCode::not_bit_exact);
  EXPECT_EQ(combined_exit_code({passed, slow}), ExitCode::fail);
  EXPECT_EQ(combined_exit_code({passed}), ExitCode::pass);
}

// run-04: as many threads as the machine of the day has give the case another name.
TEST(CompareRuns, Run04AnotherNumberOfThreadsIsAnotherEnvironment) {
  const auto on = [](int threads, const std::string& id) {
    Record record = sample_record();
    record.planned.topology.threads_per_rank = threads;
    record.case_id = id;
    return record;
  };
  const Record one = on(1, "tiny.t1"), six = on(6, "tiny.t6");
  const Comparison found = compare_runs({one}, {six}, {});
  EXPECT_EQ(found.exit_code, 4);
  ASSERT_EQ(found.rows.size(), 1U);
  EXPECT_EQ(found.rows[0].words,
            "different environment: threads 1 against 6, not comparable bitwise");
  EXPECT_EQ(compare_runs({six}, {six}, {}).exit_code, 0);
  // A case that has its like in both runs stands for no other.
  const Comparison lacking = compare_runs({one, six}, {six}, {});
  EXPECT_EQ(row(lacking, "", "").words, "the new run lacks this case");
}

}  // namespace
}  // namespace dettax
