// dettax project and dettax decide as a user meets them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/plan/suite.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::TemporaryFolder;

TEST(ProjectCommand, GivesTheSameBytesTwiceAndOthersForAnotherSeed) {
  const TemporaryFolder folder;
  const std::string command =
      "project llama3-70b --layout dp4.tp8.pp4.sp.zero1 --mode megatron-det ";
  const Outcome first = run_program(folder.path(), command);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("Simulated, not measured"));
  EXPECT_EQ(first.out, run_program(folder.path(), command).out);
  EXPECT_NE(first.out, run_program(folder.path(), command + "--seed 2").out);
}

TEST(ProjectCommand, ValidatesAgainstEveryPublishedTable) {
  const TemporaryFolder folder;
  const Outcome result = run_program(folder.path(), "project --validate --json validation.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part :
       {"megatron_sc21/a100", "dgxc_benchmarking/h100", "torchtitan", "never judged", "left out"})
    EXPECT_THAT(result.out, HasSubstr(part));
  EXPECT_THAT(testing::read_text(folder.path() / "validation.json"),
              HasSubstr("\"schema_version\": 1"));
}

TEST(DecideCommand, AnswersInASentenceAndAsksForWhatNobodyHas) {
  const TemporaryFolder folder;
  const Outcome answer =
      run_program(folder.path(), "decide -C gpus=4096 -C run_hours=1440 -C overhead_ratio=0.04");
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("Run deterministically in windows"));
  EXPECT_THAT(run_program(folder.path(), "decide").out,
              HasSubstr("asked for, since nobody but you has it: gpus"));
}

TEST(ProjectAndDecide, AProjectionIsDecidedOnAndBothStandInThePage) {
  const TemporaryFolder folder;
  const Outcome projected = run_program(
      folder.path(), "project llama3-8b --layout tp2.dp8 --gpus 16,64 --json p.json --html -");
  EXPECT_EQ(projected.exit_code, 0) << projected.err;
  EXPECT_THAT(projected.out, ::testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(run_program(folder.path(), "decide --projection p.json").err,
              HasSubstr("has 2 projections; choose one by --case: llama3-8b.bf16.dp8.tp2"));
  const Outcome decided = run_program(
      folder.path(),
      "decide --projection p.json --case dp32 -C run_hours=99 --html d.html --openmetrics d.prom");
  EXPECT_EQ(decided.exit_code, 0) << decided.err;
  EXPECT_THAT(decided.out, HasSubstr("given: projected: llama3-8b.bf16.dp32.tp2/deterministic"));
  const std::string page = testing::read_text(folder.path() / "d.html");
  EXPECT_THAT(page, HasSubstr("<h2>Projection</h2>"));
  EXPECT_THAT(page, HasSubstr("data-chart=\"costs\""));
  EXPECT_THAT(testing::read_text(folder.path() / "d.prom"), HasSubstr("dettax_decision{"));
}

TEST(ProjectAndDecide, BadInputIsOneLineOnStandardErrorAndExitCodeTwo) {
  struct Bad {
    const char* arguments;
    const char* words;
  };
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "folder.csv");
  std::ofstream(folder.path() / "notes.txt") << "to do\nmilk\n";
  for (const Bad& bad : std::vector<Bad>{
           {"project", "which model?"},
           {"project llama3-70b --layout tp7", "heads 64 is not divisible by tp 7"},
           {"project llama3-70b --cluster h1000", "did you mean"},
           {"project llama3-70b --precision nvfp4", "peak_flops has nothing for nvfp4"},
           {"project llama3-70b --op-table missing.csv", "missing.csv"},
           {"project llama3-70b --mbs 0", "--mbs"},
           {"project llama3-70b --schedule dualpip", "--schedule: must be one of"},
           {"project llama3-8b --gpus 4294967296",
            "--gpus: \"4294967296\" is no whole number from 1 "
            "to 1000000"},
           {"project llama3-8b --layout dp8 --mbs 4611686018427387904", "from 1 to 1000000"},
           {"project llama3-8b --gbs 99999999999", "--gbs"},
           {"project llama3-8b --seq-length 1000000000000", "--seq-length"},
           {"project llama3-8b --layout dp1000000.cp1000000", "at most 1000000 are projected"},
           {"project nosuch --validate --layout xyz", "MODEL: --validate does not use it"},
           {"project --validate --layout xyz", "--layout: --validate does not use it"},
           {"project --calibrate --validate", "--validate: does not go with --calibrate"},
           {"project --calibrate --json x.json", "--json: --calibrate does not use it"},
           {"project --predict none --gbs 8", "--gbs: --predict does not use it"},
           {"project llama3-8b --sweep --mode nosuch", "--mode: --sweep does not use it"},
           {"project llama3-8b --layout dp8 --sweep --gpus 16", "--gpus: --sweep does not use it"},
           {"project llama3-8b --op-table folder.csv", "folder.csv: is a folder"},
           {"project llama3-8b --op-table notes.txt", "notes.txt: has no column \"op\""},
           {"project --predict . --predict ./", "--predict ./: is given twice"},
           {"decide -C price_per_gpu_hour=-1", "price_per_gpu_hour"},
           {"project --predict none", "there is no run folder \"none\""},
           {"project llama3-70b --calibrate-on x", "--calibrate-on: goes with --predict"},
           {"project llama3-70b --op-table none", "there is no run folder \"none\""},
           {"project llama3-70b --sweep --html x.html", "are of projections"},
           {"decide --projection none.json", "none.json"},
           {"decide --run none.json", "none.json"},
           {"decide -C gpus", "key=value"}}) {
    const Outcome result = run_program(folder.path(), bad.arguments);
    EXPECT_EQ(result.exit_code, 2) << bad.arguments;
    EXPECT_EQ(result.out, "") << bad.arguments;
    EXPECT_THAT(result.err, HasSubstr(bad.words)) << bad.arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << bad.arguments;
  }
}

TEST(ProjectCommand, ATableOfCollectivesAloneIsTaken) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "c.csv")
      << "op,precision,mode,m,n,k,seconds\nall_reduce,,fast,1e9,8,8,0.5\n";
  const std::string command = "project llama3-8b --layout dp8";
  const Outcome with = run_program(folder.path(), command + " --op-table c.csv");
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_NE(with.out, run_program(folder.path(), command).out);
}

TEST(ProjectCommand, ASweepSaysThatItLeavesNoiseOut) {
  const TemporaryFolder folder;
  const Outcome sweep =
      run_program(folder.path(), "project llama3-8b --layout dp8 --gbs 64 --sweep --json s.json");
  EXPECT_THAT(sweep.out, HasSubstr("Without noise"));
  EXPECT_THAT(testing::read_text(folder.path() / "s.json"), HasSubstr("\"noise\": \"left out\""));
}

TEST(ProjectCommand, NothingThatIsReadIsWrittenOver) {
  const TemporaryFolder folder;
  const std::string home = find_home() + "/configs/";
  std::filesystem::copy(home + "models/llama3-8b.yaml", folder.path() / "m.yaml");
  std::filesystem::copy(home + "clusters/h100.yaml", folder.path() / "c.yaml");
  std::filesystem::copy(home + "modes/deterministic.yaml", folder.path() / "d.yaml");
  const std::string before = testing::read_text(folder.path() / "c.yaml");
  for (const std::string input :
       {"./m.yaml --json m.yaml", "llama3-8b --cluster ./c.yaml --json c.yaml",
        "llama3-8b --mode ./d.yaml --json d.yaml"}) {
    const Outcome result = run_program(folder.path(), "project " + input);
    EXPECT_EQ(result.exit_code, 2) << input;
    EXPECT_THAT(result.err, HasSubstr("another file is needed")) << input;
  }
  EXPECT_EQ(testing::read_text(folder.path() / "c.yaml"), before);
  EXPECT_EQ(
      run_program(folder.path(), "project ./m.yaml --cluster ./c.yaml --json p.json").exit_code, 0);
}

TEST(ProjectCommand, ATableWithoutAnOperationIsRefusedByName) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "ops.csv")
      << "op,precision,mode,m,n,k,seconds\ngemm,bf16,fast,8192,8192,8192,0.002\n";
  const Outcome result = run_program(folder.path(), "project llama3-8b --op-table ops.csv");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("has no attention_forward, attention_backward in bf16"));
}

}  // namespace
}  // namespace dettax
