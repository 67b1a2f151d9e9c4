// `dettax run` from end to end.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/run_folder.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::TemporaryFolder;
using testing::tiny_suite_yaml;
using testing::write_suite;

const ArmEvidence& evidence(const Record& record, const std::string& arm) {
  const auto& arms = record.evidence.arms;
  return *std::find_if(arms.begin(), arms.end(),
                       [&](const ArmEvidence& a) { return a.arm == arm; });
}

TEST(Run, TheTinySuiteGivesAVerdictTwiceWithEqualLedgers) {
  const TemporaryFolder folder;
  const Outcome first =
      run_program(folder.path(), "run tiny --output-dir a --json all.json --no-progress");
  const Outcome second = run_program(folder.path(), "run tiny --output-dir b");
  for (const Outcome& outcome : {first, second}) {
    EXPECT_THAT(outcome.exit_code, AnyOf(0, 3)) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("gpt-tiny-l1.fp32.dp1.t2.b4x64.m2"));
  }
  EXPECT_THAT(second.err, HasSubstr("[1/1] gpt-tiny-l1.fp32.dp1.t2.b4x64.m2: measuring\n"));
  EXPECT_EQ(std::count(first.err.begin(), first.err.end(), '\n'), 1);  // the run folder alone
  const auto records = [&](const char* parent) {
    return RunFolder::open(std::filesystem::directory_iterator(folder.path() / parent)->path())
        .records();
  };
  const Record a = records("a").at(0), b = records("b").at(0);
  EXPECT_EQ(a.verdict.exit_code, first.exit_code);
  EXPECT_TRUE(evidence(a, "deterministic").reproducible);
  EXPECT_FALSE(evidence(a, "deterministic").ledger_digest.empty());
  EXPECT_EQ(evidence(a, "deterministic").ledger_digest, evidence(b, "deterministic").ledger_digest);
  EXPECT_EQ(a.suite_hash, b.suite_hash);
  EXPECT_NE(a.environment.simd_target, "");
  EXPECT_THAT(testing::read_text(folder.path() / "all.json"),
              HasSubstr("\"exit_code\": " + std::to_string(first.exit_code)));
}

TEST(Run, AnotherSeedGivesAnotherLedger) {
  const TemporaryFolder folder;
  run_program(folder.path(), "run tiny --output-dir a");
  run_program(folder.path(), "run tiny --output-dir b --seed 2");
  const auto digest = [&](const char* parent) {
    const auto run =
        RunFolder::open(std::filesystem::directory_iterator(folder.path() / parent)->path());
    return evidence(run.records().at(0), "deterministic").ledger_digest;
  };
  EXPECT_NE(digest("a"), digest("b"));
}

TEST(Report, PrintsTheTableThatRunPrinted) {
  const TemporaryFolder folder;
  const Outcome ran = run_program(folder.path(), "run tiny");
  const Outcome reported = run_program(folder.path(), "report latest");
  EXPECT_EQ(reported.out, ran.out);
  EXPECT_EQ(reported.exit_code, ran.exit_code);
  EXPECT_EQ(reported.err, "");
}

TEST(Compare, OfARunWithItselfShowsNoChange) {
  const TemporaryFolder folder;
  run_program(folder.path(), "run tiny");
  const Outcome same = run_program(folder.path(), "compare latest latest");
  // The tiny suite's own noise may be more than a comparison can look through.
  EXPECT_THAT(same.exit_code, AnyOf(0, 3)) << same.out << same.err;
  EXPECT_THAT(
      same.out,
      HasSubstr("reproducible as before, and both records have the same digest of its ledger"));
}

TEST(Run, AModeThatClaimsMoreThanItKeepsEndsWithFive) {
  const TemporaryFolder folder;
  // Many repeated tokens over three threads: enough contributions that their order shows.
  std::ofstream(folder.path() / "weak.yaml") << "note: One knob is fast.\n"
                                                "name: weak\n"
                                                "base: deterministic\n"
                                                "knobs: {norm: arrival}\n";
  const std::string suite =
      write_suite(folder.path(),
                  "modes: [./weak.yaml]\n"
                  "measure: {warmup_steps_min: 1, warmup_steps_max: 2, steps_per_block: 1, "
                  "rounds_min: 3, rounds_max: 3, budget_seconds: 1, target_half_width: 1.0}\n"
                  "evidence: {steps: 3, runs: 6, relaunch: true}\n"
                  "cases: [{model: {base: gpt-tiny, layers: 1}, layout: dp1, threads: 3, batch: "
                  "{micro: 4, global: 4, sequence_length: 128}}]\n");
  const Outcome outcome = run_program(folder.path(), "run " + suite);
  EXPECT_EQ(outcome.exit_code, 5) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("set knob norm to ordered"));
  EXPECT_THAT(run_program(folder.path(), "run --dry-run " + suite).out,
              HasSubstr("warning: mode weak: knob norm: arrival does not go with "
                        "claims_reproducible: true, which needs ordered"));
  const Record record =
      RunFolder::open(std::filesystem::directory_iterator(folder.path() / "results/runs")->path())
          .records()
          .at(0);
  EXPECT_EQ(record.verdict.reason_code, "not_reproducible");
  const ArmEvidence& weak = evidence(record, "weak");
  EXPECT_FALSE(weak.reproducible);
  const auto differing = std::find_if(weak.scopes.begin(), weak.scopes.end(),
                                      [](const ScopeEvidence& scope) { return !scope.equal; });
  ASSERT_NE(differing, weak.scopes.end());
  EXPECT_THAT(differing->first_difference_op, HasSubstr("norm"));
  EXPECT_FALSE(std::any_of(record.taxes.begin(), record.taxes.end(),
                           [](const Tax& tax) { return tax.published; }));
}

TEST(Run, ATextFileOfTheUserTrains) {
  const TemporaryFolder folder;
  std::ofstream text(folder.path() / "book.txt");
  for (int i = 0; i < 500; ++i)
    text << "A line of a text that is long enough, number " << i << ".\n";
  text.close();
  const Outcome outcome = run_program(folder.path(), "run tiny --text book.txt");
  EXPECT_THAT(outcome.exit_code, AnyOf(0, 3)) << outcome.out << outcome.err;
  EXPECT_EQ(run_program(folder.path(), "run tiny --text nowhere.txt").exit_code, 2);
  // What was trained on is known again, and nothing else is gone on with.
  std::ofstream(folder.path() / "book.txt", std::ios::app) << "One line more.\n";
  const Outcome resumed = run_program(
      folder.path(),
      "run --resume " +
          std::filesystem::directory_iterator(folder.path() / "results/runs")->path().string());
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("is not the text that was planned with"));
  EXPECT_EQ(std::count(resumed.err.begin(), resumed.err.end(), '\n'), 1) << resumed.err;
}

}  // namespace
}  // namespace dettax
