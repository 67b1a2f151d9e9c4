#include "harness/launch/process.h"

#include <csignal>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using testing::read_text;
using testing::TemporaryFolder;

ProcessSpec shell(const TemporaryFolder& folder, const std::string& script) {
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  spec.output = folder.path() / "out";
  return spec;
}

TEST(Process, HasItsEnvironmentBeforeItStarts) {
  const TemporaryFolder folder;
  ProcessSpec spec = shell(folder, "echo $DETTAX_TEST_VARIABLE; echo $HOME");
  spec.environment = {{"DETTAX_TEST_VARIABLE", "a value"}};
  Process process = Process::start(spec);
  ASSERT_EQ(process.wait(5), 0);
  const char* home = std::getenv("HOME");
  EXPECT_EQ(read_text(spec.output),
            std::string("a value\n") + (home == nullptr ? "" : home) + "\n");
}

TEST(Process, ItsEndIsTold) {
  const TemporaryFolder folder;
  Process plain = Process::start(shell(folder, "exit 3"));
  EXPECT_EQ(describe_exit(plain.wait(5).value()), "ended with status 3");
  Process crashed = Process::start(shell(folder, "kill -ABRT $$"));
  EXPECT_EQ(describe_exit(crashed.wait(5).value()), "crashed (signal 6, SIGABRT)");
  Process killed = Process::start(shell(folder, "kill -KILL $$"));
  EXPECT_EQ(describe_exit(killed.wait(5).value()), "was killed (signal 9, SIGKILL)");
}

TEST(Process, WhatRunsOnHasNoStatus) {
  const TemporaryFolder folder;
  Process process = Process::start(shell(folder, "sleep 100"));
  EXPECT_EQ(process.wait(0.01), std::nullopt);
}

TEST(Process, LeavesNothingBehind) {
  const TemporaryFolder folder;
  pid_t leader = 0;
  {
    Process process = Process::start(shell(folder, "sleep 100 & echo $!; wait"));
    leader = process.pid();
    for (int i = 0; i < 500 && read_text(folder.path() / "out").empty(); ++i) ::usleep(10'000);
  }
  EXPECT_EQ(::kill(leader, 0), -1);  // reaped too: a zombie would still answer
  const pid_t grandchild = std::stoi(read_text(folder.path() / "out"));
  // Its new parent reaps it in its own time.
  const std::string status = "/proc/" + std::to_string(grandchild) + "/status";
  for (int i = 0; i < 500 && std::filesystem::exists(status) &&
                  read_text(status).find("State:\tZ") == std::string::npos;
       ++i)
    ::usleep(10'000);
  EXPECT_TRUE(!std::filesystem::exists(status) ||
              read_text(status).find("State:\tZ") != std::string::npos);
}

TEST(Process, AProgramThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  ProcessSpec spec = shell(folder, "");
  spec.program = "/nowhere/dettax";
  try {
    Process::start(spec);
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_STREQ(error.what(), "cannot start /nowhere/dettax: No such file or directory");
  }
}

}  // namespace
}  // namespace dettax
