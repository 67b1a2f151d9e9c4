// Whole suites through processes: needs the dettax program.
#include "harness/launch/run_suite.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/reason.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::launch_settings;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny_suite;

class RunSuite : public ::testing::Test {
 protected:
  SuiteRun run(const Suite& suite, RunFolder& folder, const RunSuiteSettings& settings = {}) {
    LaunchSettings launch = launch_settings(folder.path());
    launch.step_timeout_seconds = suite.measure.step_timeout_seconds;
    return run_suite(suite, folder, *make_thread_launcher(launch), settings);
  }
  TemporaryFolder folder_;
};

const ArmResult& arm(const Record& record, const std::string& name) {
  return *find_arm(record, name);
}

TEST_F(RunSuite, AFaultInEveryArmIsNotBlamedOnTheProgram) {
  const Suite suite = tiny_suite(
      folder_.path(), "  - {label: crash, injections: [{kind: crash, rank: 0, step: 0}]}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const SuiteRun done = run(suite, folder);
  ASSERT_THAT(done.records, SizeIs(1));
  EXPECT_EQ(done.records[0].verdict.reason_code, "rank_crashed");
  EXPECT_EQ(done.records[0].verdict.exit_code, 4);
}

TEST_F(RunSuite, AFaultEndsItsCaseAndTheOthersGoOn) {
  const Suite suite =
      tiny_suite(folder_.path(),
                 "  - {label: crash, injections: [{kind: crash, arm: deterministic, rank: 1, step: "
                 "2, op: backward/layer1/attention}]}\n"
                 "  - {label: hang, injections: [{kind: hang, arm: control, rank: 1, step: 2, op: "
                 "forward/layer0/norm1}]}\n"
                 "  - {label: good}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const SuiteRun done = run(suite, folder);
  ASSERT_THAT(done.records, SizeIs(3));
  EXPECT_EQ(done.records[0].verdict.status, Status::error);
  EXPECT_EQ(done.records[0].verdict.reason_code, "rank_crashed");
  EXPECT_THAT(
      done.records[0].verdict.reason,
      HasSubstr("rank 1 crashed (signal 6, SIGABRT) in step 2, op backward/layer1/attention"));
  EXPECT_EQ(done.records[1].verdict.reason_code, "hang");
  EXPECT_THAT(done.records[1].verdict.reason,
              HasSubstr("rank 1 hung in step 2, op forward/layer0/norm1"));
  EXPECT_NE(done.records[2].verdict.status, Status::error);
  EXPECT_FALSE(done.records[2].taxes.empty());
  for (const char* name : {"fast", "control"})
    EXPECT_TRUE(arm(done.records[0], name).step_time_seconds) << name;
}

TEST_F(RunSuite, AnArmThatMadeNaNLeavesTheOthersTimesAndNoOverhead) {  // mode-03
  const Suite suite = tiny_suite(folder_.path(),
                                 "  - {injections: [{kind: nan, arm: deterministic, rank: 0, step: "
                                 "1, op: forward/layer0/attention}]}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const Record record = run(suite, folder).records.at(0);
  EXPECT_EQ(record.verdict.status, Status::fail);
  EXPECT_EQ(record.verdict.reason_code, "non_finite");
  EXPECT_THAT(record.verdict.reason, HasSubstr("step 1, rank 0, op forward/layer0/attention"));
  EXPECT_TRUE(record.taxes.empty());
  EXPECT_THAT(record.arms, SizeIs(3));
  EXPECT_TRUE(arm(record, "fast").step_time_seconds);
  EXPECT_TRUE(arm(record, "control").step_time_seconds);
}

TEST_F(RunSuite, FinishedCasesAreNotRunAgain) {
  const Suite suite = tiny_suite(folder_.path(), "  - {label: a}\n  - {label: b}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  bool stop = false;
  RunSuiteSettings settings;
  settings.on_record = [&](size_t, size_t, const Record&) { stop = true; };
  settings.interrupted = [&] { return stop; };
  const SuiteRun first = run(suite, folder, settings);
  EXPECT_TRUE(first.interrupted);
  ASSERT_THAT(first.records, SizeIs(1));
  const SuiteRun second = run(suite, folder);
  EXPECT_FALSE(second.interrupted);
  ASSERT_THAT(second.records, SizeIs(2));
  EXPECT_EQ(to_json(second.records[0]), to_json(first.records[0]));
  EXPECT_EQ(attempts(read_journal(folder.path()), suite.cases[0].id()), 1);
  EXPECT_EQ(attempts(read_journal(folder.path()), suite.cases[1].id()), 2);
}

TEST_F(RunSuite, TellsWhyACaseHasNoCheckpoints) {
  Suite suite = tiny_suite(folder_.path(), "  - {label: a}\n");
  suite.evidence.checkpoint_every = 1;
  const auto told = [&](const std::string& runs, bool blocked) {
    RunFolder folder = RunFolder::create(folder_.path() / runs, suite);
    if (blocked) std::ofstream(folder.path() / "checkpoints") << "no folder";
    std::vector<std::string> words;
    RunSuiteSettings settings;
    settings.on_not_saved = [&](const std::string& case_id, const std::string& why) {
      words.push_back(case_id + ": " + why);
    };
    run(suite, folder, settings);
    return words;
  };
  EXPECT_THAT(told("free", false), ::testing::IsEmpty());
  const std::vector<std::string> words = told("blocked", true);
  ASSERT_THAT(words, SizeIs(1));
  EXPECT_THAT(words[0], ::testing::StartsWith(suite.cases[0].id() +
                                              ": deterministic: no checkpoints are saved: "));
}

TEST_F(RunSuite, ABudgetThatIsSpentLeavesCasesForLater) {
  const Suite suite = tiny_suite(folder_.path(), "  - {label: a}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  RunSuiteSettings settings;
  settings.budget_seconds = 1e-9;
  const Record late = run(suite, folder, settings).records.at(0);
  EXPECT_EQ(late.verdict.reason_code, "incomplete");
  EXPECT_EQ(late.verdict.exit_code, 4);
  EXPECT_NE(run(suite, folder).records.at(0).verdict.reason_code, "incomplete");
}

TEST_F(RunSuite, ACaseThatDoesNotFitIsRefusedBeforeAnythingStarts) {
  Suite suite = tiny_suite(folder_.path(), "  - {label: a}\n");
  suite.cases[0].model.width = 1 << 20;
  suite.cases[0].model.ffn_width = 1 << 22;
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const Record record = run(suite, folder).records.at(0);
  EXPECT_EQ(record.verdict.status, Status::skipped);
  EXPECT_EQ(record.verdict.exit_code, 77);
  EXPECT_TRUE(record.arms.empty());
}

const KnobControl& control(const Record& record, const std::string& knob) {
  const auto& controls = record.evidence.controls;
  const auto found = std::find_if(controls.begin(), controls.end(),
                                  [&](const KnobControl& one) { return one.knob == knob; });
  if (found == controls.end()) throw std::runtime_error("no control of " + knob);
  return *found;
}

TEST_F(RunSuite, TheRecordSaysOfEachKnobWhetherTheCaseWouldTell) {
  const Suite suite = tiny_suite(
      folder_.path(),
      "  - {layout: dp4, threads: 1, batch: {micro: 1, global: 4, sequence_length: 32}}\n");
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const Record record = run(suite, folder).records.at(0);
  EXPECT_THAT(record.evidence.controls, SizeIs(8));
  EXPECT_EQ(control(record, "collectives").status, ControlStatus::caught)
      << control(record, "collectives").reason;
  EXPECT_EQ(control(record, "norm").status, ControlStatus::not_shown);
  EXPECT_EQ(control(record, "norm").reason, "one compute thread a rank");
}

TEST_F(RunSuite, ControlsThatWereNotRunSayWhy) {
  Suite suite = tiny_suite(folder_.path(), "  - {threads: 2}\n");
  suite.evidence.controls = false;
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const Record record = run(suite, folder).records.at(0);
  EXPECT_EQ(control(record, "norm").status, ControlStatus::not_run);
  EXPECT_EQ(control(record, "norm").reason, "evidence.controls is off");
}

TEST_F(RunSuite, TheInvariantArmProvesOtherThreadsAndRanks) {
  Suite suite = tiny_suite(
      folder_.path(),
      "  - {layout: dp2, topology: {nodes: 2, ranks_per_node: 1}, batch: {micro: 2, global: 8, "
      "sequence_length: 32}}\n",
      "[invariant]");
  suite.evidence.other_allocation = true;
  RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
  const Record record = run(suite, folder).records.at(0);
  const auto& arms = record.evidence.arms;
  const auto invariant = std::find_if(arms.begin(), arms.end(),
                                      [](const ArmEvidence& a) { return a.arm == "invariant"; });
  ASSERT_NE(invariant, arms.end());
  EXPECT_TRUE(invariant->reproducible) << record.verdict.reason;
  std::vector<std::string> scopes;
  for (const ScopeEvidence& scope : invariant->scopes) {
    EXPECT_TRUE(scope.equal) << scope.scope << ": " << scope.first_difference;
    scopes.push_back(scope.scope);
  }
  EXPECT_THAT(scopes, ::testing::ElementsAre("same_process", "relaunch", "other_allocation",
                                             "other_threads", "other_ranks"));
}

}  // namespace
}  // namespace dettax
