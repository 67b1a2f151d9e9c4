#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/launch/process.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_text;
using testing::tiny_suite_yaml;
using testing::write_suite;
namespace fs = std::filesystem;

class RestartCheckCommand : public ::testing::Test {
 protected:
  Outcome check(const std::string& flags) {
    return testing::run_program(folder_.path(),
                                "restart-check test.yaml --steps 2 --save-at 1 " + flags);
  }
  void write(const std::string& cases) { write_suite(folder_.path(), tiny_suite_yaml(cases)); }

  const testing::TemporaryFolder folder_;
};

// What temporary folders are made in.
class TemporaryFolders {
 public:
  explicit TemporaryFolders(const fs::path& path) {
    ::setenv("TMPDIR", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~TemporaryFolders() { ::unsetenv("TMPDIR"); }  // NOLINT(concurrency-mt-unsafe): one thread
  TemporaryFolders(const TemporaryFolders&) = delete;
  TemporaryFolders& operator=(const TemporaryFolders&) = delete;
};

TEST_F(RestartCheckCommand, KeepsTheVerdictsBesideACaseThatFails) {
  write("  - {label: bad}\n  - {label: good}\n");
  // Its processes cannot write their log.
  fs::create_directories(folder_.path() / "kept/gpt-tiny.fp32.dp2.t1.b4x32.bad.resumed.log");
  const Outcome outcome = check("--output-dir kept --json out.json");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("bad.resumed.log: Is a directory"));
  const auto json = nlohmann::json::parse(read_text(folder_.path() / "out.json"));
  EXPECT_EQ(json["exit_code"], 4);
  ASSERT_EQ(json["restarts"].size(), 2U);
  EXPECT_THAT(json["restarts"][0]["error"].get<std::string>(), HasSubstr("Is a directory"));
  EXPECT_EQ(json["restarts"][1]["exit_code"], 0);
}

TEST_F(RestartCheckCommand, GoesOnAfterACaseWhoseFolderIsNone) {
  write("  - {label: bad}\n  - {label: good}\n");
  ASSERT_EQ(check("--output-dir kept").exit_code, 0);
  for (const auto& entry : fs::directory_iterator(folder_.path() / "kept")) {
    if (!entry.is_directory() || entry.path().string().find(".bad.") == std::string::npos) continue;
    fs::remove_all(entry.path());
    std::ofstream(entry.path()) << "no folder";
  }
  const Outcome outcome = check("--output-dir kept --json out.json");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  const auto json = nlohmann::json::parse(read_text(folder_.path() / "out.json"));
  ASSERT_EQ(json["restarts"].size(), 2U);
  EXPECT_THAT(json["restarts"][0]["error"].get<std::string>(),
              HasSubstr("cannot be used: Not a directory"));
  EXPECT_EQ(json["restarts"][1]["exit_code"], 0);
}

TEST_F(RestartCheckCommand, SaysWhichNumbersOfStepsWouldBeRight) {
  write("  - {}\n");
  const auto refused = [&](const std::string& flags) {
    return testing::run_program(folder_.path(), "restart-check test.yaml " + flags).err;
  };
  for (const char* steps : {"1000000000", "2.5", "1"})
    EXPECT_THAT(refused(std::string("--steps ") + steps),
                HasSubstr("a whole number from 2 to 999999 would be right"));
  EXPECT_THAT(refused("--save-at 1.5"), HasSubstr("a whole number from 1 to 3 would be right"));
}

TEST_F(RestartCheckCommand, NamesTheInjectedFaultThatExplainsTheDifference) {
  const std::string fault =
      "{kind: reorder, step: 1, op: backward/layer1/attention, tensor: dq, arm: ";
  write("  - {label: struck, injections: [" + fault +
        "deterministic}]}\n  - {label: spared, "
        "injections: [" +
        fault + "fast}]}\n");
  const Outcome outcome = check("--json out.json");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the case injects what makes steps differ: reorder of "
                                     "backward/layer1/attention, tensor dq from step 1 on"));
  const auto json = nlohmann::json::parse(read_text(folder_.path() / "out.json"));
  EXPECT_EQ(json["restarts"][0]["faults"].size(), 1U);
  EXPECT_EQ(json["restarts"][1]["exit_code"], 0);
  EXPECT_TRUE(json["restarts"][1]["faults"].empty());
}

TEST_F(RestartCheckCommand, WorksInFoldersWhoseNamesAreNoUtf8) {
  write("  - {}\n");
  const fs::path temporary = folder_.path() / "t\xe9mp";
  fs::create_directory(temporary);
  const TemporaryFolders here(temporary);
  const Outcome outcome = check("--json out.json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(RestartCheckCommand, ReplacesInItsFolderOnlyWhatItWrote) {
  write("  - {label: one}\n");
  ASSERT_EQ(check("--output-dir kept").exit_code, 0);
  fs::path folder;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "kept"))
    if (entry.is_directory()) folder = entry.path();
  ASSERT_TRUE(fs::exists(folder / "checkpoints"));
  std::ofstream(folder / "notes.txt") << "mine";
  EXPECT_EQ(check("--output-dir kept").exit_code, 0);
  EXPECT_EQ(read_text(folder / "notes.txt"), "mine");
}

TEST_F(RestartCheckCommand, RefusesInOneLineWhatItCannotWriteTo) {
  write("  - {}\n");
  const std::string suite = read_text(folder_.path() / "test.yaml");
  EXPECT_EQ(check("--json test.yaml").exit_code, 2);
  EXPECT_EQ(read_text(folder_.path() / "test.yaml"), suite);
  const Outcome file = check("--output-dir test.yaml");
  EXPECT_EQ(file.exit_code, 4);
  EXPECT_THAT(file.err, HasSubstr("--output-dir test.yaml is no folder"));
  const TemporaryFolders nowhere(folder_.path() / "nowhere");
  const Outcome temporary = check("");
  EXPECT_EQ(temporary.exit_code, 2);
  EXPECT_THAT(temporary.err, HasSubstr("TMPDIR"));
}

TEST_F(RestartCheckCommand, LeavesNoTemporaryFolderBehindAfterASignal) {
  write("  - {injections: [{kind: delay, rank: 0, op: forward/layer0/attention, seconds: 20}]}\n");
  const fs::path temporary = folder_.path() / "tmp";
  fs::create_directory(temporary);
  const TemporaryFolders here(temporary);
  ProcessSpec spec;
  spec.program = DETTAX_PROGRAM;
  spec.arguments = {"restart-check", (folder_.path() / "test.yaml").string()};
  spec.output = folder_.path() / "log";
  Process process = Process::start(spec);
  for (int i = 0; i < 2000 && fs::is_empty(temporary); ++i) ::usleep(10'000);
  ASSERT_FALSE(fs::is_empty(temporary)) << read_text(folder_.path() / "log");
  ASSERT_EQ(::kill(process.pid(), SIGINT), 0);
  ASSERT_TRUE(process.wait(20));
  EXPECT_TRUE(fs::is_empty(temporary));
}

}  // namespace
}  // namespace dettax
