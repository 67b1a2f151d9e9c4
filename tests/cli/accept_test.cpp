// `dettax accept` and `dettax baseline` from end to end.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "results/reason.h"
#include "results/run_folder.h"
#include "tests/analysis/fleet_records.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::read_text;
using testing::run_program;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

// A run folder that holds this record, as a run would have left it.
void leave_run(const fs::path& parent, Record record) {
  Suite suite;
  suite.name = record.environment.host;
  suite.cases = {record.planned};
  record.case_id = record.planned.id();
  RunFolder folder = RunFolder::create(parent, suite);
  record.run_id = folder.run_id();
  folder.journal("started", record.case_id);
  folder.write_record(record);
  folder.journal("finished", record.case_id);
}

void leave_fleet(const fs::path& parent, int nodes, int slow_node = -1) {
  for (int node = 0; node < nodes; ++node)
    leave_run(parent, node_record(node, {node == slow_node ? 1.3 : 1.0}));
}

fs::path only_run(const fs::path& parent) { return fs::directory_iterator(parent)->path(); }

TEST(Accept, ARunGivesVerdictAndFilesAndJudgesTheSameAgain) {
  const TemporaryFolder folder;
  const Outcome run = run_program(
      folder.path(),
      "accept tiny --no-progress --output-dir a --rule limits=[] --rule idle.timeout_seconds=0 -C "
      "evidence.controls=false");
  EXPECT_THAT(run.exit_code, AnyOf(0, 3)) << run.out << run.err;
  EXPECT_THAT(run.out, AnyOf(HasSubstr("ACCEPTED"), HasSubstr("UNDECIDED")));
  EXPECT_THAT(run.out, HasSubstr("stages in their order: idle check left out, gpt-tiny"));
  for (const char* file : {"acceptance.json", "acceptance.xml", "acceptance.html", "acceptance.md"})
    EXPECT_GT(fs::file_size(only_run(folder.path() / "a") / file), 100U) << file;
  EXPECT_THAT(read_text(only_run(folder.path() / "a") / "acceptance.xml"), HasSubstr("node:"));
  const std::string verdict = read_text(only_run(folder.path() / "a") / "acceptance.json");
  const std::string judge = "accept --judge a --rule limits=[] --verdict ";
  const Outcome once = run_program(folder.path(), judge + "once.json");
  const Outcome again = run_program(folder.path(), judge + "again.json");
  EXPECT_EQ(once.exit_code, run.exit_code);
  EXPECT_EQ(once.out, run.out) << "what was said of its stages is read back";
  EXPECT_EQ(once.out, again.out);
  EXPECT_EQ(read_text(folder.path() / "once.json"), verdict);
  EXPECT_EQ(read_text(folder.path() / "once.json"), read_text(folder.path() / "again.json"));
  // Finished cases are not measured again.
  const Outcome resumed = run_program(folder.path(),
                                      "accept --no-progress --rule limits=[] --rule "
                                      "idle.timeout_seconds=0 --resume " +
                                          only_run(folder.path() / "a").string());
  EXPECT_EQ(resumed.exit_code, run.exit_code) << resumed.err;
  EXPECT_EQ(resumed.out, run.out);
  EXPECT_EQ(read_text(only_run(folder.path() / "a") / "acceptance.json"), verdict);
}

TEST(Accept, AMachineThatNeverSettledStaysUndecidedWhenJudgedAgain) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 1);
  EXPECT_EQ(run_program(folder.path(), "accept --judge runs").exit_code, 0);
  RunFolder run = RunFolder::open(only_run(folder.path() / "runs"));
  run.journal("note", "", "the budget of 20m left out 1 of 2 cases: b");
  run.journal("not_idle", "", "other processes used 40 % of the cores");
  const Outcome found = run_program(folder.path(), "accept --judge runs --verdict v.json");
  EXPECT_EQ(found.exit_code, 3) << found.out;
  const std::string verdict = read_text(folder.path() / "v.json");
  EXPECT_THAT(verdict, HasSubstr("\"the budget of 20m left out 1 of 2 cases: b\""));
  EXPECT_THAT(verdict, HasSubstr("\"other processes used 40 % of the cores\""));
  // Of several runs with the name of the one that says it.
  leave_fleet(folder.path() / "runs", 1);
  const Outcome both = run_program(folder.path(), "accept --judge runs --verdict v.json");
  EXPECT_EQ(both.exit_code, 3);
  EXPECT_THAT(read_text(folder.path() / "v.json"), HasSubstr(run.run_id() + ": the budget of 20m"));
}

TEST(Accept, ARunThatLostItsJournalIsNotLeftOut) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 1);
  leave_fleet(folder.path() / "runs/lost", 1);
  EXPECT_EQ(run_program(folder.path(), "accept --judge runs").exit_code, 0);
  fs::remove(only_run(folder.path() / "runs/lost") / "journal.jsonl");
  const Outcome found = run_program(folder.path(), "accept --judge runs");
  EXPECT_EQ(found.exit_code, 2) << found.out;
  EXPECT_THAT(found.err, HasSubstr("has records but no journal.jsonl"));
}

TEST(Accept, LinksThatLeadNowhereAreNoRuns) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 3);
  const std::string verdict = run_program(folder.path(), "accept --judge runs --verdict -").out;
  fs::create_symlink("loop", folder.path() / "runs/loop");
  fs::create_symlink("nowhere", folder.path() / "runs/dangling");
  fs::create_symlink(".", folder.path() / "runs/itself");
  const Outcome found = run_program(folder.path(), "accept --judge runs --verdict -");
  EXPECT_EQ(found.out, verdict) << found.err;
  EXPECT_EQ(run_program(folder.path(), "baseline record runs --baseline -").exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), "accept --judge runs/loop").exit_code, 2);
}

TEST(Accept, AFolderThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 3);
  fs::create_directory(folder.path() / "runs/closed");
  // Root reads everything unless it gives that up.
  const std::string ordinary =
      ::geteuid() == 0 ? "setpriv --bounding-set=-dac_override,-dac_read_search" : "";
  if (run_program(folder.path(), "--version", ordinary).exit_code != 0)
    GTEST_SKIP() << "root cannot be held back here";
  for (const char* command : {"accept --judge runs", "baseline record runs --baseline -"}) {
    EXPECT_EQ(run_program(folder.path(), command, ordinary).exit_code, 0) << command;
    for (const fs::perms mode : {fs::perms::none, fs::perms::owner_read, fs::perms::owner_exec}) {
      fs::permissions(folder.path() / "runs/closed", mode);
      const Outcome found = run_program(folder.path(), command, ordinary);
      EXPECT_EQ(found.exit_code, 2) << command;
      EXPECT_THAT(found.err, HasSubstr("runs/closed: cannot be read: Permission denied"));
    }
    fs::permissions(folder.path() / "runs/closed", fs::perms::owner_all);
  }
}

TEST(Accept, AVerdictNeverTakesThePlaceOfWhatItJudges) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 1);
  const fs::path run = only_run(folder.path() / "runs");
  const RunFolder opened = RunFolder::open(run);
  const fs::path record = run / (opened.records().front().case_id + ".json");
  for (const fs::path& file : {record, run / "journal.jsonl", run / "suite.yaml"}) {
    const std::string before = read_text(file);
    const std::string what =
        file.extension() == ".yaml" ? "a configuration" : "run " + opened.run_id();
    for (const char* flag : {" --verdict ", " --json "}) {
      const Outcome found =
          run_program(folder.path(), "accept --judge runs" + (flag + file.string()));
      EXPECT_EQ(found.exit_code, 2) << file;
      EXPECT_THAT(found.err, HasSubstr("is what is read as " + what));
    }
    EXPECT_EQ(read_text(file), before);
  }
  const std::string beside = "accept --judge runs --verdict " + (run / "v.json").string();
  EXPECT_EQ(run_program(folder.path(), beside).exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), beside).exit_code, 0) << "its own is replaced";
}

TEST(Accept, StandardOutputHoldsOneThing) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 1);
  const Outcome verdict = run_program(folder.path(), "accept --judge runs --verdict -");
  EXPECT_EQ(verdict.out, [&] {
    run_program(folder.path(), "accept --judge runs --verdict v.json");
    return read_text(folder.path() / "v.json");
  }());
  const Outcome junit = run_program(folder.path(), "accept --judge runs --junit - --csv x.csv");
  EXPECT_EQ(junit.exit_code, 0) << junit.err;
  EXPECT_THAT(junit.out, ::testing::StartsWith("<?xml"));
  EXPECT_THAT(junit.out, Not(HasSubstr("ACCEPTED")));
}

TEST(Accept, ASignalEndsItWithAPartialVerdict) {
  const TemporaryFolder folder;
  const std::string command = "cd " + folder.path().string() +
                              " && timeout --preserve-status -s TERM 2 " DETTAX_PROGRAM
                              " accept quick --no-progress --rule idle.timeout_seconds=0 "
                              "--output-dir a >out.txt 2>err.txt </dev/null";
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_THAT(read_text(folder.path() / "out.txt"), HasSubstr("NOT COMPLETE"));
  EXPECT_THAT(read_text(folder.path() / "err.txt"), HasSubstr("dettax accept --resume"));
  EXPECT_THAT(read_text(only_run(folder.path() / "a") / "acceptance.json"),
              HasSubstr("\"reason_code\": \"incomplete\""));
}

TEST(Accept, EveryExitCodeIsThatOfTheVerdict) {
  for (const auto& [reason, code] :
       std::vector<std::pair<std::string, int>>{{"within_limit", 0},
                                                {"non_finite", 1},
                                                {"configuration", 2},
                                                {"control_differs", 3},
                                                {"rank_crashed", 4},
                                                {"not_reproducible", 5},
                                                {"internal", 70},
                                                {"refused", 77},
                                                {"timeout", 124}}) {
    const TemporaryFolder folder;
    Record record = node_record(0);
    record.verdict = make_verdict(reason, "made");
    leave_run(folder.path() / "runs", record);
    const Outcome found = run_program(folder.path(), "accept --judge runs --junit out.xml");
    EXPECT_EQ(found.exit_code, code) << reason << found.out << found.err;
    EXPECT_THAT(found.out, HasSubstr("exit code " + std::to_string(code)));
    EXPECT_THAT(read_text(folder.path() / "out.xml"), HasSubstr("node:gpu00"));
  }
}

TEST(Accept, ABadNodeIsNamedAndDrainedOnlyIfAsked) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 8, 5);
  std::ofstream(folder.path() / "scontrol")
      << "#!/bin/sh\necho \"$@\" >>" << folder.path().string() << "/drained\n";
  fs::permissions(folder.path() / "scontrol", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  const Outcome printed = run_program(folder.path(), "accept --judge runs --junit out.xml");
  EXPECT_EQ(printed.exit_code, 1) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("NOT ACCEPTED  8 nodes: gpu05 (slow_node)"));
  EXPECT_THAT(printed.out, HasSubstr("scontrol update NodeName=gpu05 State=DRAIN"));
  EXPECT_THAT(read_text(folder.path() / "out.xml"), HasSubstr("type=\"slow_node\""));
  EXPECT_FALSE(fs::exists(folder.path() / "drained"));
  const Outcome drained = run_program(folder.path(), "accept --judge runs --drain");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(drained.exit_code, 1) << drained.err;
  EXPECT_EQ(read_text(folder.path() / "drained"),
            "update NodeName=gpu05 State=DRAIN Reason=dettax:slow_node\n");
}

// acceptance-05 (b): 7 of 8 devices.
TEST(Accept, Acceptance05AMissingDeviceStopsBeforeTheLaunch) {
  const TemporaryFolder folder;
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6", 1);
  const Outcome seven =
      run_program(folder.path(), "accept tiny --output-dir a --rule devices.per_node=8");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(seven.exit_code, 4);
  EXPECT_THAT(seven.err, HasSubstr("expected 8 devices on node "));
  EXPECT_THAT(seven.err, HasSubstr(", found 7; nothing was started"));
  EXPECT_FALSE(fs::exists(folder.path() / "a"));
}

TEST(Accept, WhatIsWrongOnTheCommandLineIsNamed) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 1);
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Outcome found = run_program(folder.path(), "accept " + arguments);
    EXPECT_EQ(found.exit_code, 2) << arguments;
    EXPECT_THAT(found.err, HasSubstr(words));
    EXPECT_THAT(found.err, Not(HasSubstr("dettax: run folder")));
  };
  refused("--judge runs --rule fleet.slow_ration=2", "slow_ratio");
  refused("--judge runs --rule fleet", "key=value");
  refused("--judge runs --budget 5m", "--judge runs nothing");
  refused("--judge runs --kernels", "--judge runs nothing");
  refused("--judge runs --launcher threads", "--judge runs nothing");
  refused("--judge runs --nodes 2", "--judge runs nothing");
  refused("--judge runs --verdict - --junit -", "--junit - and --verdict -: would overwrite");
  refused("--judge runs --json x --csv ./x", "--json x and --csv ./x: would overwrite each other");
  refused("--judge nowhere", "nowhere");
  refused("--judge runs --rules no-such", "no-such");
  refused("--judge runs --baseline no-such.json", "no-such.json");
  refused("no-such-suite", "no-such-suite");
  refused("tiny --expect-devices 1.5", "whole number");
}

TEST(BaselineCommand, ItIsRecordedAndCheckedBothWays) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 6);
  leave_run(folder.path() / "same", node_record(50));
  leave_run(folder.path() / "slower", node_record(50, {1.2}));
  leave_run(folder.path() / "faster", node_record(50, {0.8}));
  Record other = node_record(50);
  other.environment.cpu_model = "Another CPU";
  leave_run(folder.path() / "other", other);
  const auto code = [&](const std::string& arguments) {
    return run_program(folder.path(), arguments).exit_code;
  };
  EXPECT_EQ(code("baseline check same"), 2);   // there is none
  EXPECT_EQ(code("baseline record same"), 2);  // one run has no spread
  const Outcome recorded = run_program(folder.path(), "baseline record runs");
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_THAT(recorded.out, HasSubstr("results/baselines/Example_CPU-2c-AVX2.json"));
  EXPECT_EQ(code("baseline check same"), 0);
  EXPECT_EQ(code("baseline check slower"), 1);
  EXPECT_EQ(code("baseline check faster"), 1);
  const Outcome shown = run_program(folder.path(), "baseline record runs --baseline -");
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.out, read_text(folder.path() / "results/baselines/Example_CPU-2c-AVX2.json"));
  EXPECT_FALSE(fs::exists(folder.path() / "-"));
  EXPECT_EQ(code("baseline check same --baseline -"), 2);
  const std::string file = " --baseline results/baselines/Example_CPU-2c-AVX2.json";
  EXPECT_EQ(code("baseline check other" + file), 4);
  EXPECT_EQ(code("baseline check other --force" + file), 0);
  EXPECT_EQ(code("accept --judge slower" + file), 1);
  EXPECT_EQ(code("accept --judge same" + file), 0);
  EXPECT_EQ(code("accept --judge other" + file), 4);
}

TEST(BaselineCommand, TakesNoPlaceOfWhatItIsMadeFromAndMakesNoFolders) {
  const TemporaryFolder folder;
  leave_fleet(folder.path() / "runs", 6);
  const fs::path run = only_run(folder.path() / "runs");
  const fs::path record = run / (RunFolder::open(run).records().front().case_id + ".json");
  const std::string before = read_text(record);
  const auto refused = [&](const std::string& file, const std::string& words) {
    const Outcome found = run_program(folder.path(), "baseline record runs --baseline " + file);
    EXPECT_EQ(found.exit_code, 2) << file;
    EXPECT_THAT(found.err, HasSubstr("--baseline " + file + ": " + words));
  };
  refused(record.string(), "is what is read as run ");
  EXPECT_EQ(read_text(record), before);
  refused("nowhere/b.json", "its folder does not exist");
  EXPECT_FALSE(fs::exists(folder.path() / "nowhere"));
  refused("runs", "is a folder; a file is needed");
  const std::string file = "baseline record runs --baseline b.json";
  EXPECT_EQ(run_program(folder.path(), file).exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), file).exit_code, 0) << "an older baseline is replaced";
}

}  // namespace
}  // namespace dettax
