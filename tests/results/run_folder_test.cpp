#include "results/run_folder.h"

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "results/environment.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    parent_ = fs::temp_directory_path() / ("dettax-results-" + std::to_string(::getpid()));
    fs::remove_all(parent_);
    fs::create_directories(parent_);
  }
  void TearDown() override { fs::remove_all(parent_); }

  Suite suite() const {
    Suite suite;
    suite.name = "quick";
    suite.fast.name = "fast";
    suite.cases = {sample_record().planned};
    return suite;
  }
  Record record() const {
    Record one = sample_record();
    one.case_id = one.planned.id();
    return one;
  }
  fs::path parent_;
};

TEST_F(Folder, WritingReplacesTheWholeFileAndLeavesNothingBeside) {
  write_file_atomically(parent_ / "a.json", "first, and longer");
  write_file_atomically(parent_ / "a.json", "second");
  EXPECT_EQ(read_file(parent_ / "a.json"), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(parent_), fs::directory_iterator()), 1);
}

TEST_F(Folder, WhatCannotBeWrittenIsAnInfrastructureErrorThatNamesTheFile) {
  try {
    write_file_atomically(parent_ / "missing" / "a.json", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    EXPECT_THAT(error.what(), HasSubstr("missing/a.json"));
  }
  // A full disk.
  EXPECT_THROW(write_file_atomically("/dev/full/a.json", "x"), Error);
}

TEST_F(Folder, WritingGoesThroughALinkAndNeverReplacesADevice) {
  write_file_atomically(parent_ / "target", "old");
  std::filesystem::create_symlink(parent_ / "target", parent_ / "link");
  write_file_atomically(parent_ / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(parent_ / "link"));
  EXPECT_EQ(read_file(parent_ / "target"), "new");
  std::filesystem::create_symlink("/dev/full", parent_ / "device");
  EXPECT_THROW(write_file_atomically(parent_ / "device", "x"), Error);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(Folder, ReadingWhatIsNotThereIsAConfigErrorThatNamesTheFile) {
  try {
    read_file(parent_ / "none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_THAT(error.what(), HasSubstr("none"));
  }
}

TEST_F(Folder, CreatesOneFolderARunAlsoTwiceInASecond) {
  const RunFolder first = RunFolder::create(parent_ / "runs", suite());
  const RunFolder second = RunFolder::create(parent_ / "runs", suite());
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(first.run_id(), HasSubstr("-quick"));
  EXPECT_THAT(first.suite_yaml(), HasSubstr("quick"));
  EXPECT_EQ(RunFolder::open(first.path() / "").run_id(), first.run_id());
}

TEST_F(Folder, OpensNothingThatIsNoRunFolder) { EXPECT_THROW(RunFolder::open(parent_), Error); }

TEST_F(Folder, KeepsRecordsInThePlannedOrder) {
  Suite two = suite();
  two.cases.push_back(two.cases[0]);
  two.cases[0].model.name = "zebra";
  RunFolder folder = RunFolder::create(parent_, two);
  for (size_t i : {size_t{1}, size_t{0}}) {
    Record one = record();
    one.planned = two.cases[i];
    one.case_id = one.planned.id();
    folder.write_record(one);
  }
  const std::vector<Record> records = RunFolder::open(folder.path()).records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].case_id, two.cases[0].id());
  EXPECT_EQ(records[1].case_id, two.cases[1].id());
  EXPECT_FALSE(folder.record("another"));
}

// Tasks of an array start in the same second, so that only the host tells their runs apart.
TEST_F(Folder, ACaseWithoutARecordIsOfTheHostOfTheOthers) {
  Suite two = suite();
  two.cases.push_back(two.cases[0]);
  two.cases[1].model.name = "zebra";
  RunFolder folder = RunFolder::create(parent_, two);
  EXPECT_EQ(folder.records().at(1).environment.host, "");
  Record one = record();
  one.environment.host = "n7";
  folder.write_record(one);
  EXPECT_EQ(folder.records().at(1).environment.host, "n7");
  EXPECT_EQ(folder.records().at(1).verdict.reason_code, "incomplete");
}

TEST_F(Folder, APlannedCaseWithoutARecordIsIncompleteAndSaysWhy) {
  RunFolder folder = RunFolder::create(parent_, suite());
  const std::string id = record().case_id;
  const auto reason = [&] {
    const std::vector<Record> records = folder.records();
    EXPECT_EQ(records.size(), 1U);
    EXPECT_EQ(records.at(0).case_id, id);
    EXPECT_EQ(records.at(0).run_id, folder.run_id());
    EXPECT_EQ(records.at(0).verdict.exit_code, 4);
    return records.at(0).verdict.reason;
  };
  EXPECT_THAT(reason(), HasSubstr("It was not started"));
  folder.journal("started", id);
  EXPECT_THAT(reason(), HasSubstr("still running or was killed"));
  folder.journal("interrupted", id);
  EXPECT_THAT(reason(), HasSubstr("It was interrupted"));
  folder.journal("finished", id);
  EXPECT_THAT(reason(), HasSubstr("The journal says that it was finished, but its record is no "
                                  "longer in the run folder"));
  folder.write_record(record());
  EXPECT_EQ(folder.records().at(0).verdict.exit_code, 0);
}

TEST_F(Folder, AHolderThatIsJustEndingIsWaitedFor) {
  const RunFolder folder = RunFolder::create(parent_, suite());
  auto first = std::make_unique<RunLock>(folder.path(), 0);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  EXPECT_NO_THROW(RunLock(folder.path(), 60));
  ending.join();
}

TEST_F(Folder, OnlyOneProcessRunsIt) {
  const RunFolder folder = RunFolder::create(parent_, suite());
  {
    const RunLock lock(folder.path(), 0);
    try {
      const RunLock second(folder.path(), 0.1);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_EQ(error.what(),
                folder.path().string() + ": is being run by process " + std::to_string(::getpid()));
    }
    EXPECT_EQ(RunFolder::open(folder.path()).records().size(), 1U);  // reading is free
  }
  EXPECT_NO_THROW(RunLock(folder.path(), 0));
}

TEST_F(Folder, ADamagedRecordIsAnErrorAndNotAnAbsence) {
  RunFolder folder = RunFolder::create(parent_, suite());
  folder.write_record(record());
  const fs::path file = folder.path() / (record().case_id + ".json");
  fs::resize_file(file, fs::file_size(file) / 2);
  try {
    folder.records();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.string() + ": is not whole JSON"));
    EXPECT_THAT(error.what(), HasSubstr("without this file, --resume runs the case again"));
  }
}

TEST_F(Folder, TheJournalCountsAttemptsAndOutlivesATornLine) {
  RunFolder folder = RunFolder::create(parent_, suite());
  const std::string id = record().case_id;
  EXPECT_EQ(attempts(read_journal(folder.path()), id), 0);
  folder.journal("started", id);
  std::ofstream(folder.path() / "journal.jsonl", std::ios::app) << R"({"time":"2026-03-01T12:0)";
  EXPECT_EQ(attempts(read_journal(folder.path()), id), 1);
  folder.journal("started", id, "second attempt");
  EXPECT_EQ(attempts(read_journal(folder.path()), id), 2);
}

TEST_F(Folder, AJournalDamagedInTheMiddleIsAnErrorThatNamesTheLine) {
  RunFolder folder = RunFolder::create(parent_, suite());
  std::ofstream(folder.path() / "journal.jsonl", std::ios::app) << "nonsense\n";
  try {
    attempts(read_journal(folder.path()), "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("journal.jsonl:2"));
  }
}

// acceptance-04: the same path, another file.
TEST_F(Folder, TheEnvironmentTellsTopologyFilesOfOtherContentApart) {
  const auto content = [&](const std::string& text) {
    std::ofstream(parent_ / "topo.xml") << text;
    return collect_environment("AVX2", {parent_}).variables.at("NCCL_TOPO_FILE (content)");
  };
  ::setenv("NCCL_TOPO_FILE", (parent_ / "topo.xml").c_str(), 1);
  const std::string one = content("<system/>"), other = content("<system></system>");
  EXPECT_EQ(one, content("<system/>"));
  EXPECT_NE(one, other);
  ::setenv("NCCL_TOPO_FILE", (parent_ / "none.xml").c_str(), 1);
  EXPECT_EQ(collect_environment("AVX2", {parent_}).variables.at("NCCL_TOPO_FILE (content)"),
            "cannot be read");
  ::unsetenv("NCCL_TOPO_FILE");
}

TEST_F(Folder, TheEnvironmentHoldsOnlyAllowedVariables) {
  ::setenv("NCCL_ALGO", "Ring", 1);
  ::setenv("NCCL_SECRET_TOKEN", "x", 1);
  std::ofstream(parent_ / "cpuinfo") << "processor\t: 0\nmodel name\t: Example CPU\n";
  std::ofstream(parent_ / "meminfo") << "MemTotal:        1024 kB\n";
  const Environment environment = collect_environment("AVX2", {parent_});
  ::unsetenv("NCCL_ALGO");
  ::unsetenv("NCCL_SECRET_TOKEN");
  EXPECT_EQ(environment.variables, (std::map<std::string, std::string>{{"NCCL_ALGO", "Ring"}}));
  EXPECT_EQ(environment.cpu_model, "Example CPU");
  EXPECT_EQ(environment.memory_bytes, 1024 * 1024);
  EXPECT_GT(environment.cores, 0);
  EXPECT_EQ(environment.tool_version, DETTAX_VERSION);
  EXPECT_FALSE(environment.git_commit.empty());
}

}  // namespace
}  // namespace dettax
