// Groups of processes with real training steps in them: needs the dettax program.
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "harness/launch/descriptor.h"
#include "harness/launch/launcher.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using testing::cpu_ticks;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::launch_settings;
using testing::read_text;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny_suite;

class Group : public ::testing::Test {
 protected:
  std::unique_ptr<ArmGroup> start(const std::string& case_yaml,
                                  const std::string& mode = "deterministic") {
    const Suite suite = tiny_suite(folder_.path(), "  - " + case_yaml + "\n", "[" + mode + "]");
    return make_thread_launcher(settings_)->start({mode, suite.cases.at(0), suite.modes.at(0)},
                                                  mode);
  }
  Error failure(ArmGroup& group, int steps) {
    return failure_of([&] { group.run_steps(steps); });
  }

  TemporaryFolder folder_;
  LaunchSettings settings_ = launch_settings(folder_.path());
};

TEST_F(Group, GivesTheTimesOfEveryRankAndStep) {
  const auto group = start("{}");
  const StepsRun run = group->run_steps(3);
  ASSERT_THAT(run.step_time_seconds, SizeIs(2));
  for (const auto& rank : run.step_time_seconds) {
    ASSERT_THAT(rank, SizeIs(3));
    for (const double seconds : rank) EXPECT_GT(seconds, 0);
  }
  EXPECT_GT(run.hosts.at(0).cpu_seconds, 0);
  EXPECT_GT(group->memory_peak_bytes(), 1 << 20);
}

TEST_F(Group, ReportsWhatEngagedAsFoundInTheProcess) {
  const auto group = start("{}", "megatron-det");
  EXPECT_EQ(group->engaged().at("gemm"),
            group->spec().mode.knobs.gemm == Order::ordered ? "ordered" : "?");
  EXPECT_EQ(group->engaged().at("CUBLAS_WORKSPACE_CONFIG"),
            group->spec().mode.environment.at("CUBLAS_WORKSPACE_CONFIG"));
  EXPECT_EQ(group->engaged().at("threads_per_rank"), "1");
  EXPECT_EQ(group->engaged().at("ranks"), "2");
}

TEST_F(Group, EqualRunsLeaveEqualLedgersAndAnotherSeedDoesNot) {
  const auto group = start("{}");
  group->write_ledger(1, 2, folder_.path() / "a");
  group->run_steps(2);
  group->write_ledger(1, 2, folder_.path() / "b");
  group->write_ledger(2, 2, folder_.path() / "c");
  const auto relaunched = start("{}");
  relaunched->write_ledger(1, 2, folder_.path() / "d");
  const std::string first = read_text(folder_.path() / "a");
  EXPECT_GT(first.size(), 1000U);
  EXPECT_EQ(first, read_text(folder_.path() / "b"));
  EXPECT_EQ(first, read_text(folder_.path() / "d"));
  EXPECT_NE(first, read_text(folder_.path() / "c"));
}

TEST_F(Group, StressChangesNoBitOfAnOrderedModeAndAWeakenedOneIsNamed) {
  const auto group = start("{threads: 2}");
  group->write_ledger(1, 2, folder_.path() / "plain");
  group->write_ledger(1, 2, folder_.path() / "stressed", 1);
  const std::string plain = read_text(folder_.path() / "plain");
  EXPECT_EQ(plain, read_text(folder_.path() / "stressed"));
  group->weaken(Knob::norm);
  group->write_ledger(1, 2, folder_.path() / "weak", 2);
  EXPECT_THAT(read_text(folder_.path() / "weak"), HasSubstr("deterministic with norm arrival"));
  EXPECT_THAT(plain, ::testing::Not(HasSubstr("norm arrival")));
}

TEST_F(Group, WeakeningHoldsWeightsOnce) {
  const auto group = start("{model: {base: gpt-tiny, layers: 2, vocabulary: 65536}}");
  group->write_ledger(1, 1, folder_.path() / "a");
  const int64_t before = group->memory_peak_bytes();
  for (const Knob knob : {Knob::loss, Knob::grad_norm, Knob::norm}) group->weaken(knob);
  group->write_ledger(1, 1, folder_.path() / "b");
  EXPECT_LT(static_cast<double>(group->memory_peak_bytes()), 1.2 * static_cast<double>(before));
}

TEST_F(Group, AWaitingGroupUsesNoCore) {
  const auto group = start("{threads: 2}");
  group->run_steps(2);
  ::usleep(50'000);  // idle threads may poll for a moment before they sleep
  const int64_t before = cpu_ticks(group->process_id());
  ::usleep(500'000);
  EXPECT_LE(cpu_ticks(group->process_id()) - before, 1);  // of 50 a core: a timer may fall in
  group->run_steps(2);
}

TEST_F(Group, ACrashNamesRankStepAndOp) {
  const auto group =
      start("{injections: [{kind: crash, rank: 1, step: 4, op: backward/layer1/attention}]}");
  group->run_steps(4);
  const Error error = failure(*group, 2);
  EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
  EXPECT_THAT(
      error.what(),
      HasSubstr("rank 1 crashed (signal 6, SIGABRT) in step 4, op backward/layer1/attention"));
}

TEST_F(Group, AHangNamesTheRankThatTheOthersWaitFor) {
  settings_.step_timeout_seconds = 1;
  const auto group =
      start("{injections: [{kind: hang, rank: 1, step: 1, op: forward/layer1/attention}]}");
  const Error error = failure(*group, 3);
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_THAT(error.what(), HasSubstr("rank 1 hung in step 1, op forward/layer1/attention"));
}

TEST_F(Group, AValueThatIsNotFiniteIsTracedToItsOp) {
  const auto group =
      start("{injections: [{kind: nan, rank: 1, step: 1, op: forward/layer0/attention}]}");
  const Error error = failure(*group, 3);
  EXPECT_EQ(error.kind(), ErrorKind::numeric);
  EXPECT_THAT(error.what(),
              HasSubstr("in step 1; first in step 1, rank 1, op forward/layer0/attention, tensor"));
  EXPECT_THAT(error.what(), HasSubstr("(32 of "));
}

TEST_F(Group, AnIntermittentOneIsNotBlamedOnAnOp) {  // nan-02
  const auto group =
      start("{injections: [{kind: nan_once, rank: 0, step: 1, op: backward/layer0/attention}]}");
  const Error error = failure(*group, 3);
  EXPECT_EQ(error.kind(), ErrorKind::numeric);
  EXPECT_THAT(error.what(), HasSubstr("0 of 1 replays reproduced it: intermittent"));
}

TEST_F(Group, AFaultThatFindsNoOpIsAnError) {
  const auto group = start("{injections: [{kind: nan, rank: 0, step: 0, op: backward/nowhere}]}");
  const Error error = failure(*group, 1);
  EXPECT_EQ(error.kind(), ErrorKind::config);
  EXPECT_THAT(error.what(), HasSubstr("no op of step 0 begins with \"backward/nowhere\""));
}

TEST_F(Group, AFaultOfAnotherArmLeavesThisOneAlone) {
  const auto group = start("{injections: [{kind: crash, arm: control, rank: 0, step: 0}]}");
  EXPECT_NO_THROW(group->run_steps(2));
}

TEST_F(Group, AKilledWorkerIsToldWithItsStep) {
  const auto group = start("{}");
  group->run_steps(2);
  ASSERT_EQ(::kill(static_cast<pid_t>(group->process_id()), SIGKILL), 0);
  const Error error = failure(*group, 2);
  EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
  EXPECT_THAT(error.what(), HasSubstr("was killed (signal 9, SIGKILL) with rank 0 in step 1"));
}

TEST_F(Group, WhatAWorkerPrintedLastIsShown) {
  const auto group = start("{}");
  std::ofstream(folder_.path() / (group->spec().planned.id() + ".deterministic.log"), std::ios::app)
      << "the last words\n";
  ASSERT_EQ(::kill(static_cast<pid_t>(group->process_id()), SIGKILL), 0);
  EXPECT_THAT(failure(*group, 1).what(), HasSubstr("its last output: the last words"));
}

TEST_F(Group, AnInterruptEndsAWaitAtOnce) {
  const Descriptor interrupt(::eventfd(0, EFD_CLOEXEC));
  settings_.interrupt = interrupt.get();
  settings_.step_timeout_seconds = 100;
  const auto group = start("{injections: [{kind: hang, rank: 0, step: 0}]}");
  std::thread later([&] {
    ::usleep(100'000);
    EXPECT_EQ(::eventfd_write(interrupt.get(), 1), 0);
  });
  EXPECT_STREQ(failure(*group, 1).what(), "interrupted");
  later.join();
}

TEST_F(Group, ACaseThatCannotTrainIsRefusedWithItsReason) {
  Suite suite = tiny_suite(folder_.path(), "  - {}\n");
  suite.cases[0].layout.tp = 3;  // of four heads
  EXPECT_THROW(make_thread_launcher(settings_)->start({"x", suite.cases[0], suite.modes[0]}, "x"),
               Error);
}

TEST_F(Group, ASlowFaultMakesStepsLonger) {
  const auto plain = start("{}");
  const auto slow = start("{injections: [{kind: slow, rank: 0, step: 0, ratio: 6}]}");
  plain->run_steps(2);
  slow->run_steps(2);
  // Seven times as long: no noise hides it.
  EXPECT_GT(slow->run_steps(1).step_time_seconds[0][0],
            2 * plain->run_steps(1).step_time_seconds[0][0]);
}

}  // namespace
}  // namespace dettax
