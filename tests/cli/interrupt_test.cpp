// Signals to a running program: it ends in order, leaves no process, and can go on.
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/process.h"
#include "results/run_folder.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_text;
using testing::run_program;
using testing::TemporaryFolder;
using testing::tiny_suite_yaml;
using testing::write_suite;

// A first case that ends soon and a second that hangs for longer than any test waits.
std::string slow_suite(const TemporaryFolder& folder) {
  std::string yaml = tiny_suite_yaml(
      "  - {label: a}\n  - {label: b, injections: [{kind: hang, arm: fast, rank: 0, step: 3}]}\n");
  const std::string timeout = "step_timeout_seconds: 3,";
  yaml.replace(yaml.find(timeout), timeout.size(), "step_timeout_seconds: 5,");
  return write_suite(folder.path(), yaml);
}

// Whether /proc has it and it is no zombie that only waits to be reaped by its new parent.
bool alive(int64_t pid) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
  return !status.empty() && status.find("State:\tZ") == std::string::npos;
}

std::vector<int64_t> children(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::istringstream in(read_text("/proc/" + id + "/task/" + id + "/children"));
  std::vector<int64_t> out;
  for (int64_t child = 0; in >> child;) out.push_back(child);
  return out;
}

class Signals : public ::testing::Test {
 protected:
  // Starts the suite and waits until its second case is being measured.
  void start() {
    ProcessSpec spec;
    spec.program = DETTAX_PROGRAM;
    spec.arguments = {"run", slow_suite(folder_), "--output-dir",
                      (folder_.path() / "runs").string()};
    spec.output = folder_.path() / "log";
    process_.emplace(Process::start(spec));
    ASSERT_TRUE(wait_until([&] {
      return read_text(folder_.path() / "log").find("[2/2]") != std::string::npos &&
             read_text(folder_.path() / "log").find(".b: measuring") != std::string::npos;
    }));
    workers_ = children(process_->pid());
    ASSERT_EQ(workers_.size(), 3U);
  }
  template <class Condition>
  bool wait_until(const Condition& condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      ::usleep(10'000);
    }
    return false;
  }
  bool no_worker_left() {
    return wait_until([&] { return std::none_of(workers_.begin(), workers_.end(), alive); });
  }
  std::filesystem::path run_folder() {
    return std::filesystem::directory_iterator(folder_.path() / "runs")->path();
  }

  TemporaryFolder folder_;
  std::optional<Process> process_;
  std::vector<int64_t> workers_;
};

TEST_F(Signals, TerminateLeavesAJournalToGoOnFrom) {
  start();
  ASSERT_EQ(::kill(process_->pid(), SIGTERM), 0);
  const auto status = process_->wait(20);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 128 + SIGTERM);
  EXPECT_TRUE(no_worker_left());
  EXPECT_THAT(read_text(folder_.path() / "log"),
              HasSubstr("interrupted by signal 15; 1 of 2 cases are finished"));
  EXPECT_THAT(read_text(run_folder() / "journal.jsonl"), HasSubstr("\"event\":\"interrupted\""));

  const RunFolder before = RunFolder::open(run_folder());
  const std::vector<Record> finished = before.records();
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_EQ(finished.at(1).verdict.reason_code, "incomplete");
  const Outcome reported = run_program(folder_.path(), "report " + run_folder().string());
  EXPECT_EQ(reported.exit_code, 4);
  EXPECT_THAT(reported.out, HasSubstr("It was interrupted; --resume runs it."));
  EXPECT_THAT(reported.out, HasSubstr("2 cases: 1 error, "));
  // A suite that was edited since is another one.
  const std::string yaml = before.suite_yaml();
  const size_t at = yaml.find("step_timeout_seconds: 5");
  ASSERT_NE(at, std::string::npos);
  write_file_atomically(before.path() / "suite.yaml",
                        std::string(yaml).replace(at, 23, "step_timeout_seconds: 4"));
  const Outcome refused = run_program(folder_.path(), "run --resume " + run_folder().string());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("suite.yaml: was changed after"));
  write_file_atomically(before.path() / "suite.yaml", yaml);
  const Outcome resumed = run_program(folder_.path(), "run --resume " + run_folder().string());
  EXPECT_EQ(resumed.exit_code, 4) << resumed.err;  // the second case hangs, and now is told so
  const RunFolder after = RunFolder::open(run_folder());
  EXPECT_EQ(after.records().size(), 2U);
  EXPECT_EQ(to_json(after.records().at(0)), to_json(finished.at(0)));
  EXPECT_EQ(attempts(read_journal(after.path()), finished.at(0).case_id), 1);
  EXPECT_EQ(attempts(read_journal(after.path()), after.records().at(1).case_id), 2);
}

TEST_F(Signals, ARunThatIsGoingOnIsNotResumedButReported) {
  start();
  const Outcome second = run_program(folder_.path(), "run --resume " + run_folder().string());
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
  EXPECT_THAT(second.err, HasSubstr("is being run by process " + std::to_string(process_->pid())));
  const Outcome reported = run_program(folder_.path(), "report " + run_folder().string());
  EXPECT_EQ(reported.exit_code, 4);
  EXPECT_THAT(reported.out, HasSubstr("still running or was killed"));
  // The lock dies with the process.
  ASSERT_EQ(::kill(process_->pid(), SIGKILL), 0);
  process_->wait(20);
  EXPECT_NO_THROW(RunLock(run_folder(), 0));
}

TEST_F(Signals, ControlCEndsWithItsNumber) {
  start();
  ASSERT_EQ(::kill(process_->pid(), SIGINT), 0);
  const auto status = process_->wait(20);
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 128 + SIGINT);
  EXPECT_TRUE(no_worker_left());
}

TEST_F(Signals, AKilledParentLeavesNoWorker) {
  start();
  ASSERT_EQ(::kill(process_->pid(), SIGKILL), 0);
  EXPECT_TRUE(no_worker_left());
}

TEST_F(Signals, WorkersThatLiveAreSeenAlive) {  // twin of the above
  start();
  EXPECT_TRUE(std::all_of(workers_.begin(), workers_.end(), alive));
}

}  // namespace
}  // namespace dettax
