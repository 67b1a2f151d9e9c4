// Files that `dettax export`, `report` and `run` write, by the program itself, of a run folder made here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporters/exporter.h"
#include "harness/plan/suite.h"
#include "results/reason.h"
#include "results/run_folder.h"
#include "tests/cli/program.h"
#include "tests/results/sample_record.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using ::testing::StartsWith;
using testing::TemporaryFolder;

// A folder of one case that ended so.
std::string make_run(const TemporaryFolder& folder, const char* reason_code) {
  const Suite suite = testing::tiny_suite(folder.path(), "  - {seed: 1}\n");
  RunFolder run = RunFolder::create(folder.path() / "runs", suite);
  Record record = sample_record();
  record.run_id = run.run_id();
  record.planned = suite.cases.at(0);
  record.case_id = record.planned.id();
  record.suite_hash = suite.hash;
  record.verdict = make_verdict(reason_code, "");
  run.write_record(record);
  return run.path().string();
}

TEST(Export, WritesEveryFormatAtOnce) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  std::string flags;
  for (const Exporter& exporter : exporter_table())
    flags += " --" + std::string(exporter.format) + " out." + std::string(exporter.format);
  const Outcome outcome = run_program(folder.path(), "export " + run + flags);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  for (const Exporter& exporter : exporter_table()) {
    const std::string format(exporter.format);
    EXPECT_GT(read_file(folder.path() / ("out." + format)).size(), 100U);
    const Outcome report = run_program(folder.path(), "report " + run + " --format " + format);
    EXPECT_EQ(report.out, read_file(folder.path() / ("out." + format))) << "they say the same";
  }
}

TEST(Export, ItsExitCodeIsThatOfTheRun) {
  for (const auto& [reason, code] :
       std::initializer_list<std::pair<const char*, int>>{{"within_limit", 0},
                                                          {"over_limit", 1},
                                                          {"not_resolved", 3},
                                                          {"rank_crashed", 4},
                                                          {"not_reproducible", 5},
                                                          {"internal", 70},
                                                          {"refused", 77},
                                                          {"timeout", 124}}) {
    const TemporaryFolder folder;
    const std::string run = make_run(folder, reason);
    EXPECT_EQ(run_program(folder.path(), "export " + run + " --junit x.xml").exit_code, code);
    EXPECT_EQ(
        run_program(folder.path(), "report " + run + " --format html --output x.html").exit_code,
        code);
  }
}

TEST(Export, StrictTurnsInconclusiveIntoAFailure) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "not_resolved");
  EXPECT_THAT(run_program(folder.path(), "export " + run + " --junit -").out,
              HasSubstr("failures=\"0\" errors=\"0\" skipped=\"1\""));
  EXPECT_THAT(run_program(folder.path(), "export " + run + " --strict --junit -").out,
              HasSubstr("failures=\"1\" errors=\"0\" skipped=\"0\""));
}

TEST(Export, SeveralRunsAreOneFile) {
  const TemporaryFolder folder;
  const std::string one = make_run(folder, "within_limit"), two = make_run(folder, "over_limit");
  const Outcome outcome =
      run_program(folder.path(), "export " + one + " " + two + " --junit - --openmetrics m.prom");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("<testsuites name=\"dettax\" tests=\"2\" failures=\"1\""));
  EXPECT_THAT(outcome.err, HasSubstr("dettax: m.prom: 1 older results of the same configs are"));
}

TEST(Export, TwoFormatsGoToTwoFiles) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  for (const char* flags : {"--csv - --junit -", "--csv x --junit ./x", "--csv x --junit $PWD/x"}) {
    const Outcome outcome = run_program(folder.path(), "export " + run + " " + flags);
    EXPECT_EQ(outcome.exit_code, 2) << flags;
    EXPECT_THAT(outcome.err, HasSubstr("--csv "));
    EXPECT_THAT(outcome.err, HasSubstr("--junit "));
    EXPECT_THAT(outcome.err, HasSubstr("would overwrite each other"));
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
  }
  EXPECT_EQ(run_program(folder.path(), "export " + run + " --csv x --junit y").exit_code, 0);
}

// What a run was, and where its bits lie.
TEST(Export, NoResultTakesThePlaceOfWhatItIsReadFrom) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  std::filesystem::create_directory(run + "/ledgers");
  write_file_atomically(run + "/ledgers/a.ledger", "bits");
  const std::string suite = folder.path() / "s.yaml";
  write_file_atomically(suite, read_file(run + "/suite.yaml"));
  const std::string record = run + "/" + RunFolder::open(run).records().at(0).case_id + ".json";
  for (const std::string& command :
       {"export " + run + " --json " + record, "export " + run + " --csv " + run + "/suite.yaml",
        "report " + run + " --output " + run + "/ledgers/a.ledger",
        "report " + run + " --format json --output " + record,
        "run --resume " + run + " --dry-run --json " + record,
        "diff " + run + " " + run + " --json " + record,
        "bisect " + run + " " + run + " --json " + record,
        "restart-check " + suite + " --json " + suite}) {
    const std::string file = command.substr(command.rfind(' ') + 1);
    const std::string before = read_file(file);
    const Outcome outcome = run_program(folder.path(), command);
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr(file + ": is what is read as ")) << command;
    EXPECT_EQ(read_file(file), before) << command;
  }
  const std::string beside = "export " + run + " --csv " + run + "/table.csv";
  EXPECT_EQ(run_program(folder.path(), beside).exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), beside).exit_code, 0) << "its own is replaced";
}

TEST(Export, ALoopOfLinksAmongTheRunsIsNoFault) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  std::filesystem::create_directories(folder.path() / "results" / "runs");
  std::filesystem::create_symlink("loop", folder.path() / "results" / "runs" / "loop");
  EXPECT_EQ(run_program(folder.path(), "report " + run).exit_code, 0);
  EXPECT_EQ(run_program(folder.path(), "report latest").exit_code, 2);
  std::filesystem::create_directory(run + "/ledgers");
  std::filesystem::create_symlink("loop.ledger", run + "/ledgers/loop.ledger");
  const Outcome outcome = run_program(folder.path(), "diff " + run + " " + run);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the runs have no ledger of that arm and case"));
  // A disk that refuses is no fault of dettax either.
  const Outcome refused =
      run_program(folder.path(), "restart-check tiny --output-dir " + run + "/suite.yaml/x");
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_EQ(refused.err, "dettax: --output-dir " + run +
                             "/suite.yaml/x is no folder that can be written; give another one\n");
}

// A suite can be read by its name, a mode as the base of another: no flag says the file.
TEST(Export, AConfigurationIsNeverOverwritten) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  std::ofstream(folder.path() / "mode.yaml") << "base: fast\n";
  for (const std::string& command :
       {"export " + run + " --json mode.yaml", "report " + run + " --output ./mode.yaml"}) {
    const Outcome outcome = run_program(folder.path(), command);
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("mode.yaml: is what is read as a configuration"));
  }
  EXPECT_EQ(read_file(folder.path() / "mode.yaml"), "base: fast\n");
  EXPECT_EQ(run_program(folder.path(), "export " + run + " --json new.yaml").exit_code, 0);
}

TEST(Export, AMetricsFileKeepsTheLastSuccess) {
  const TemporaryFolder folder;
  const std::string good = make_run(folder, "within_limit"), bad = make_run(folder, "rank_crashed");
  const auto stamp = [&] {
    const std::string text = read_file(folder.path() / "m.prom");
    const size_t at = text.find("\ndettax_last_success_timestamp_seconds{");
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at);
  };
  run_program(folder.path(), "export " + bad + " --openmetrics m.prom");
  EXPECT_EQ(stamp(), "");
  run_program(folder.path(), "export " + good + " --openmetrics m.prom");
  const std::string success = stamp();
  EXPECT_NE(success, "");
  run_program(folder.path(), "export " + bad + " --openmetrics m.prom");
  EXPECT_EQ(stamp(), success);
}

TEST(Export, WhatCannotBeWrittenIsNoSuccess) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  for (const char* command :
       {"export {} --csv /dev/full", "report {} --format csv --output /dev/full"}) {
    const Outcome outcome = run_program(folder.path(), fmt::format(fmt::runtime(command), run));
    EXPECT_EQ(outcome.exit_code, 4) << command;
    EXPECT_THAT(outcome.err, HasSubstr("cannot be written")) << command;
  }
}

TEST(Report, GoesToAFileAsATableToo) {
  const TemporaryFolder folder;
  const std::string run = make_run(folder, "within_limit");
  const Outcome printed = run_program(folder.path(), "report " + run);
  const Outcome written = run_program(folder.path(), "report " + run + " --output table.txt");
  EXPECT_EQ(written.out, "");
  EXPECT_EQ(read_file(folder.path() / "table.txt"), printed.out);
  EXPECT_THAT(printed.out, StartsWith("dettax 0.1.0"));
}

}  // namespace
}  // namespace dettax
