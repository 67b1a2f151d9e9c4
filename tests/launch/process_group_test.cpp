// Groups whose ranks are processes under mpirun, on this host: needs the dettax program and Open MPI.
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/comm/mpi_session.h"
#include "harness/launch/process_launcher.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using testing::cpu_ticks;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::launch_settings;
using testing::read_text;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny_suite;

class ProcessGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_mpi(); !reason.empty()) GTEST_SKIP() << reason;
    if (::access("/usr/bin/mpirun", X_OK) != 0) GTEST_SKIP() << "no mpirun: install openmpi-bin";
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);          // NOLINT(concurrency-mt-unsafe)
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);  // NOLINT(concurrency-mt-unsafe)
    process_settings_.job = find_job({}, process_variables());
    process_settings_.job.cores_per_host = 1;  // tests share the cores: ranks give way
  }
  std::unique_ptr<ArmGroup> start(const std::string& case_yaml,
                                  const std::string& mode = "deterministic") {
    const Suite suite = tiny_suite(folder_.path(), "  - " + case_yaml + "\n", "[" + mode + "]");
    return make_process_launcher(settings_, process_settings_)
        ->start({mode, suite.cases.at(0), suite.modes.at(0)}, mode);
  }
  Error failure(ArmGroup& group, int steps) {
    return failure_of([&] { group.run_steps(steps); });
  }

  TemporaryFolder folder_;
  LaunchSettings settings_ = launch_settings(folder_.path());
  ProcessSettings process_settings_;
};

TEST_F(ProcessGroup, GivesTheTimesOfEveryRankAndItsPlace) {
  const auto group = start("{}");
  const StepsRun run = group->run_steps(3);
  ASSERT_THAT(run.step_time_seconds, SizeIs(2));
  for (const auto& rank : run.step_time_seconds) EXPECT_THAT(rank, SizeIs(3));
  ASSERT_THAT(run.hosts, SizeIs(1));
  EXPECT_GT(run.hosts[0].after.time_seconds, run.hosts[0].before.time_seconds);
  EXPECT_GT(group->memory_peak_bytes(), 1 << 20);
  EXPECT_EQ(group->engaged().at("ranks"), "2");
  EXPECT_EQ(group->engaged().at("launcher"), "mpirun");
  ASSERT_THAT(group->places(), SizeIs(2));
  EXPECT_EQ(group->places()[1].host, node_name());
  EXPECT_FALSE(group->places()[1].bound);
}

TEST_F(ProcessGroup, HasTheLedgerOfRanksAsThreads) {
  const auto processes = start("{}");
  processes->write_ledger(1, 2, folder_.path() / "processes");
  processes->write_ledger(2, 2, folder_.path() / "other seed");
  const Suite suite = tiny_suite(folder_.path(), "  - {}\n");
  const auto threads = make_thread_launcher(settings_)->start(
      {"deterministic", suite.cases.at(0), suite.modes.at(0)}, "threads");
  threads->write_ledger(1, 2, folder_.path() / "threads");
  const std::string first = read_text(folder_.path() / "processes");
  EXPECT_GT(first.size(), 1000U);
  EXPECT_EQ(first, read_text(folder_.path() / "threads"));
  EXPECT_NE(first, read_text(folder_.path() / "other seed"));
}

TEST_F(ProcessGroup, AWaitingGroupUsesNoCore) {
  const auto group = start("{}");
  group->run_steps(2);
  ::usleep(50'000);  // idle threads may poll for a moment before they sleep
  const int64_t before = cpu_ticks(group->process_id());
  ::usleep(500'000);
  EXPECT_LE(cpu_ticks(group->process_id()) - before, 1);  // of 50: a timer may fall in
  group->run_steps(2);
}

TEST_F(ProcessGroup, BoundRanksSayTheirCores) {
  const size_t cores = find_machine().cores.size();
  settings_.binding = Binding::core;
  if (cores < 2) {
    EXPECT_THAT(failure_of([&] { start("{}"); }).what(), HasSubstr("need 2 cores, found 1"));
    return;
  }
  const auto group = start("{}");
  EXPECT_TRUE(group->places()[0].bound);
  EXPECT_NE(group->places()[0].cores, group->places()[1].cores);
  EXPECT_THAT(group->run_steps(2).step_time_seconds, SizeIs(2));
}

TEST_F(ProcessGroup, ACrashNamesRankHostStepAndOp) {
  const auto group =
      start("{injections: [{kind: crash, rank: 1, step: 4, op: backward/layer1/attention}]}");
  group->run_steps(4);
  const Error error = failure(*group, 2);
  EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
  EXPECT_THAT(error.what(),
              HasSubstr("rank 1 on host " + node_name() +
                        " crashed (signal 6, SIGABRT) in step 4, op backward/layer1/attention"));
}

TEST_F(ProcessGroup, AHangNamesTheRankThatTheOthersWaitFor) {
  settings_.step_timeout_seconds = 2;
  const auto group =
      start("{injections: [{kind: hang, rank: 1, step: 1, op: forward/layer1/attention}]}");
  const Error error = failure(*group, 3);
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 on host"),
                                  HasSubstr("hung in step 1, op forward/layer1/attention")));
}

TEST_F(ProcessGroup, AValueThatIsNotFiniteIsTracedToItsOp) {
  const auto group =
      start("{injections: [{kind: nan, rank: 1, step: 1, op: forward/layer0/attention}]}");
  const Error error = failure(*group, 3);
  EXPECT_EQ(error.kind(), ErrorKind::numeric);
  EXPECT_THAT(error.what(),
              HasSubstr("in step 1; first in step 1, rank 1, op forward/layer0/attention, tensor"));
}

// Each says so at a time of its own; the last that does ends the request, not its limit.
TEST_F(ProcessGroup, AFailureOfAllRanksIsNotWaitedFor) {
  settings_.step_timeout_seconds = 60;
  const auto group = start("{}");
  CheckpointUse nowhere;
  nowhere.load = (folder_.path() / "no checkpoint").string();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) {
    const Error error = failure_of([&] {
      group->write_ledger_with(
          {1, 1, (folder_.path() / "ledger").string(), 0, LedgerDepth::op, nowhere});
    });
    EXPECT_THAT(error.what(), HasSubstr("no checkpoint"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(45));
}

TEST_F(ProcessGroup, AKilledRankIsNamed) {
  const auto group = start("{}");
  group->run_steps(2);
  ASSERT_EQ(::kill(static_cast<pid_t>(group->process_id()), SIGKILL), 0);
  const Error error = failure(*group, 2);
  EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 on host"), HasSubstr("ended without a word")));
}

TEST_F(ProcessGroup, AStoppedRankIsToldFromOneThatHangs) {
  settings_.step_timeout_seconds = 2;
  const auto group = start("{}");
  group->run_steps(2);
  ASSERT_EQ(::kill(static_cast<pid_t>(group->process_id()), SIGSTOP), 0);
  const Error error = failure(*group, 2);
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 on host"), HasSubstr("does not answer")));
}

TEST_F(ProcessGroup, NoRankOutlivesItsLauncher) {
  settings_.step_timeout_seconds = 2;
  auto group = start("{injections: [{kind: hang, rank: 1, step: 0}]}");
  const int64_t pid = group->process_id();
  EXPECT_EQ(failure(*group, 1).kind(), ErrorKind::timeout);
  group.reset();
  EXPECT_THAT(read_text("/proc/" + std::to_string(pid) + "/stat"), AnyOf("", HasSubstr(") Z ")));
}

TEST_F(ProcessGroup, ACaseThatExpectsOtherNodesStartsNothing) {
  const Error error = failure_of([&] { start("{topology: {nodes: 2, ranks_per_node: 1}}"); });
  EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
  EXPECT_THAT(error.what(), HasSubstr("expected 2 nodes x 1 rank, found 1 node in this host"));
}

TEST_F(ProcessGroup, WhatMpirunRefusesIsShown) {
  process_settings_.arguments = {"--no-such-argument"};
  EXPECT_THAT(failure_of([&] { start("{}"); }).what(),
              AllOf(HasSubstr("expected 2 ranks, found 0: the launcher ended with status"),
                    HasSubstr("no-such-argument")));
}

}  // namespace
}  // namespace dettax
