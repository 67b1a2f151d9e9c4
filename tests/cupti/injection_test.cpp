// The library that profiles any trainer, in a program that knows nothing of it and with a library that plays CUPTI.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/capture/capture_reader.h"
#include "profiles/import/import.h"
#include "profiles/steps.h"
#include "profiles/summary.h"
#include "tests/profiles/files.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class Injection : public testing::Test {
 protected:
  Injection() {
    environment_ = {{"FAKE_CUPTI", FAKE_CUPTI},
                    {"INJECTION", INJECTION},
                    {"DETTAX_CUPTI", FAKE_CUPTI},
                    {"NVTX_INJECTION64_PATH", INJECTION},
                    {"DETTAX_PROFILE_DIR", traces()},
                    {"DETTAX_PROFILE_WINDOW", "always"},
                    {"DETTAX_PROFILE_PERIOD_MS", "20"},
                    {"RANK", "3"},
                    {"WORLD_SIZE", "8"}};
    std::filesystem::create_directory(traces());
  }
  std::string traces() const { return folder_.path() / "traces"; }

  // Starts the program; what it says goes to files.
  void start(const std::string& scenario, int steps = 5) {
    const std::string out = folder_.path() / "out", error = folder_.path() / "error";
    const std::string number = std::to_string(steps);
    child_ = fork();
    if (child_ != 0) return;
    for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
    if (freopen(out.c_str(), "w", stdout) == nullptr ||
        freopen(error.c_str(), "w", stderr) == nullptr)
      _exit(126);
    execl(INJECTED_PROGRAM, INJECTED_PROGRAM, scenario.c_str(), number.c_str(), nullptr);
    _exit(127);
  }
  int finish() const {
    int status = -1;
    waitpid(child_, &status, 0);
    return status;
  }
  int run(const std::string& scenario, int steps = 5) {
    start(scenario, steps);
    return finish();
  }
  void wait_until_ready() const {
    for (int i = 0; i < 500 && text_of("out") != "ready\n"; ++i) usleep(10'000);
    ASSERT_EQ(text_of("out"), "ready\n") << text_of("error");
  }
  int kill_with(int signal) {
    start("wait");
    wait_until_ready();
    kill(child_, signal);
    return finish();
  }

  std::string text_of(const std::string& name) const {
    std::ifstream in(folder_.path() / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(traces()))
      names.push_back(entry.path().filename());
    return names;
  }
  Trace trace() const {
    const std::vector<Trace> all = read_traces(traces());
    EXPECT_THAT(all, SizeIs(1));
    return all.at(0);
  }
  static std::vector<int64_t> steps_of(const Trace& trace) {
    std::vector<int64_t> steps;
    for (const StepMark& mark : trace.steps) steps.push_back(mark.index);
    return steps;
  }
  static int64_t kernels_of(const Trace& trace) { return summarize(trace).work; }

  TestFolder folder_;
  std::map<std::string, std::string> environment_;
  pid_t child_ = -1;
};

TEST_F(Injection, RecordsAProgramUntilItEnds) {
  EXPECT_EQ(run("run"), 0);
  EXPECT_EQ(text_of("error"), "");
  EXPECT_THAT(files(), ElementsAre(HasSubstr(".rank3.capture")));
  const Trace found = trace();
  EXPECT_EQ(found.losses, Losses{});
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("ended by exit")));
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.world_size, 8);
  EXPECT_THAT(steps_of(found), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(kernels_of(found), 10);
  for (const Span& span : found.spans) {
    if (!is_work(span.category)) continue;
    const bool collective = found.names[span.name] == "kernel_of_a_collective";
    EXPECT_EQ(found.paths[span.path], collective ? "ncclAllReduce" : "forward");
    EXPECT_EQ(span.category, collective ? Category::communication : Category::compute);
  }
  EXPECT_EQ(attribute({found}, {found}).fast.steps, 4);
}

TEST_F(Injection, RecordsBetweenProfilerStartAndStop) {
  environment_["DETTAX_PROFILE_WINDOW"] = "profiler";
  EXPECT_EQ(run("profiler", 30), 0);
  EXPECT_EQ(text_of("error"), "");
  const Trace found = trace();
  EXPECT_THAT(found.notes, IsEmpty()) << "it ended as its window did";
  EXPECT_EQ(steps_of(found).front(), 2);
  EXPECT_EQ(steps_of(found).back(), 27);
  EXPECT_EQ(kernels_of(found), 2 * 26);
}

TEST_F(Injection, RecordsTheStepsThatAreAskedForAndTheOneBehind) {
  environment_["DETTAX_PROFILE_WINDOW"] = "steps:4-6";
  EXPECT_EQ(run("run", 30), 0);
  const Trace found = trace();
  EXPECT_THAT(steps_of(found), ElementsAre(4, 5, 6, 7));
  const std::vector<StepWindow> windows = step_windows(found);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(windows.at(i).incomplete, "");
}

TEST_F(Injection, RecordsWhileARangeIsOpen) {
  environment_["DETTAX_PROFILE_WINDOW"] = "range:iteration 3";
  EXPECT_EQ(run("run", 20), 0);
  const Trace found = trace();
  EXPECT_THAT(steps_of(found), ElementsAre(3));
  EXPECT_EQ(kernels_of(found), 2);
}

TEST_F(Injection, CountsStepsThatHaveNoNumber) {
  environment_["DETTAX_PROFILE_WINDOW"] = "steps:1-2";
  environment_["DETTAX_PROFILE_STEP"] = "forward";
  EXPECT_EQ(run("run", 20), 0);
  EXPECT_THAT(steps_of(trace()), ElementsAre(1, 2, 3));
}

TEST_F(Injection, LeavesAReadableFileWhereItsProcessWasKilled) {
  EXPECT_TRUE(WIFSIGNALED(kill_with(SIGKILL)));
  const Trace found = trace();
  EXPECT_TRUE(found.losses.cut_off);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("ended without a word")));
  EXPECT_EQ(kernels_of(found), 10);
  EXPECT_EQ(attribute({found}, {found}).fast.steps, 4);
}

TEST_F(Injection, WritesAllOnSigtermAndThenEndsByIt) {
  const int status = kill_with(SIGTERM);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  const Trace found = trace();
  EXPECT_FALSE(found.losses.cut_off);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("ended by SIGTERM")));
  EXPECT_EQ(kernels_of(found), 10);
}

TEST_F(Injection, LetsForkedChildrenAlone) {
  EXPECT_EQ(run("fork"), 0);
  EXPECT_THAT(files(), SizeIs(1));
  EXPECT_EQ(kernels_of(trace()), 10);
}

TEST_F(Injection, TellsWhatCuptiDropped) {
  EXPECT_EQ(run("drop"), 0);
  const Trace found = trace();
  EXPECT_EQ(found.losses.dropped, 3);
  EXPECT_THROW(attribute({found}, {found}), Error);
}

TEST_F(Injection, NeverWritesIntoTheFileOfAnotherProcess) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run("run"), 0);
  EXPECT_THAT(files(), SizeIs(2));
}

// --- What is missing: one line, and the program goes on ------------------------------------------

TEST_F(Injection, MakesNoFileOfAProcessWithoutCuda) {
  EXPECT_EQ(run("no_cuda"), 0);
  EXPECT_EQ(text_of("error"), "");
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Injection, DoesNotKeepAProcessThatItDoesNotProfileFromEnding) {
  environment_["DETTAX_PROFILE_DIR"] = "";
  const int status = kill_with(SIGTERM);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

struct Missing {
  const char *name, *scenario, *variable, *value, *told;
};
class InjectionWithout : public Injection, public testing::WithParamInterface<Missing> {};

TEST_P(InjectionWithout, SaysSoInOneLineAndLetsTheProgramRun) {
  environment_[GetParam().variable] = GetParam().value;
  EXPECT_EQ(run(GetParam().scenario), 0);
  const std::string said = text_of("error");
  EXPECT_THAT(said, StartsWith("dettax: not profiled: "));
  EXPECT_THAT(said, HasSubstr(GetParam().told));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
  EXPECT_THAT(files(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Each, InjectionWithout,
    testing::Values(
        Missing{"AFolder", "run", "DETTAX_PROFILE_DIR", "", "DETTAX_PROFILE_DIR names no folder"},
        Missing{"AFolderToWriteTo", "settle", "DETTAX_PROFILE_DIR", "/nowhere/at/all",
                "/nowhere/at/all/"},
        Missing{"Cupti", "run", "DETTAX_CUPTI", "/nowhere/libcupti.so",
                "CUPTI: /nowhere/libcupti.so: "},
        Missing{"AWindow", "run", "DETTAX_PROFILE_WINDOW", "steps:7",
                "range:NAME or steps:FIRST-LAST is expected"},
        Missing{"APeriod", "run", "DETTAX_PROFILE_PERIOD_MS", "often", "DETTAX_PROFILE_PERIOD_MS"},
        Missing{"CuptiForItself", "conflict", "UNUSED", "",
                "another profiler has it (Nsight Systems)"}),
    [](const auto& missing) { return std::string(missing.param.name); });

}  // namespace
}  // namespace dettax
