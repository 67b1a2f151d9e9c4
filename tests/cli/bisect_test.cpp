#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/evidence/ledger.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_text;
using testing::run_program;
namespace fs = std::filesystem;

// One run whose ledgers are shallow: the sums of one op of the deterministic arm are in another order
// in every run, those of the arm "sound" are not.
class Bisect : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    testing::write_suite(
        folder_->path(),
        testing::tiny_suite_yaml(
            "  - {layout: dp1, batch: {micro: 2, global: 4, sequence_length: 32}, injections: "
            "[{kind: reorder, arm: deterministic, step: 1, op: micro1/backward/layer1/attention, "
            "tensor: dq}]}\n",
            "[deterministic, {base: deterministic, name: sound}]"));
    const Outcome run =
        run_program(folder_->path(),
                    "run test.yaml -C evidence.depth=step -C evidence.controls=false "
                    "--no-progress --output-dir runs");
    ASSERT_EQ(run.exit_code, 5) << run.err;
    const fs::path run_folder = fs::directory_iterator(folder_->path() / "runs")->path();
    ledgers_ = fs::directory_iterator(run_folder / "ledgers")->path();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static Outcome bisect(const std::string& a, const std::string& b, const std::string& flags = "") {
    return run_program(folder_->path(), "bisect " + (ledgers_ / a).string() + ' ' +
                                            (ledgers_ / b).string() + " --json out.json " + flags);
  }
  static nlohmann::json result() {
    return nlohmann::json::parse(read_text(folder_->path() / "out.json"));
  }

  static fs::path run() { return ledgers_.parent_path().parent_path(); }
  // The run once more, under that name; gives its folder of ledgers.
  static fs::path copied(const std::string& name) {
    fs::copy(run(), folder_->path() / name, fs::copy_options::recursive);
    return folder_->path() / name / "ledgers" / ledgers_.filename();
  }

  static std::unique_ptr<testing::TemporaryFolder> folder_;
  static fs::path ledgers_;
};
std::unique_ptr<testing::TemporaryFolder> Bisect::folder_;
fs::path Bisect::ledgers_;

TEST_F(Bisect, EndsAtTheOpWhereAShallowLedgerDoesNot) {
  const Outcome outcome = bisect("deterministic.run_1.ledger", "deterministic.run_2.ledger");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("recorded at depth step: step 1, "));
  EXPECT_THAT(outcome.out, HasSubstr("found in 2 runs"));
  EXPECT_THAT(outcome.out,
              HasSubstr("origin: step 1, rank 0, micro1/backward/layer1/attention: dq differs"));
  EXPECT_THAT(outcome.out, HasSubstr("class: order of sums: attention"));
  const nlohmann::json json = result();
  EXPECT_EQ(json["exit_code"], 5);
  EXPECT_EQ(json["runs"], 2);
  EXPECT_EQ(json["replay"]["steps"], 2);
  const nlohmann::json& origin = json["origin"];
  EXPECT_EQ(origin["step"], 1);
  EXPECT_EQ(origin["rank"], 0);
  EXPECT_EQ(origin["micro_batch"], 1);
  EXPECT_EQ(origin["op"], "micro1/backward/layer1/attention");
  EXPECT_EQ(origin["tensor"], "dq");
}

TEST_F(Bisect, OfARelaunchStartsFreshProcesses) {
  const Outcome outcome =
      bisect("deterministic.run_1.ledger", "deterministic.relaunch.ledger", "--output-dir kept");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_EQ(result()["origin"]["tensor"], "dq");
  EXPECT_TRUE(fs::exists(folder_->path() / "kept/replay_2.ledger"));
}

TEST_F(Bisect, SaysThatADifferenceDidNotShowAgain) {
  const fs::path changed = ledgers_ / "sound.run_2.ledger";
  std::ifstream in(changed, std::ios::binary);
  Ledger ledger = read_ledger(in, changed.string());
  EXPECT_EQ(bisect("sound.run_1.ledger", "sound.run_2.ledger").exit_code, 0);
  for (LedgerEntry& entry : ledger.ranks[0]) {
    if (entry.step == 0 && entry.path == "state") entry.value.lane0 ^= 1;
  }
  const std::string whole = read_text(changed);
  {
    std::ofstream out(changed, std::ios::binary);
    write_ledger(out, ledger);
  }
  const Outcome outcome = bisect("sound.run_1.ledger", "sound.run_2.ledger", "--tries 2");
  std::ofstream(changed, std::ios::binary) << whole;
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.out, HasSubstr("3 runs were equal, so the difference was not shown again"));
  EXPECT_EQ(result()["origin"], nullptr);
  EXPECT_EQ(result()["replay"]["differed"], false);
}

TEST_F(Bisect, RefusesInOneLineWhatItCannotRepeat) {
  fs::copy_file(ledgers_ / "deterministic.run_1.ledger", folder_->path() / "a.ledger");
  fs::copy_file(ledgers_ / "deterministic.run_2.ledger", folder_->path() / "b.ledger");
  const Outcome loose = run_program(folder_->path(), "bisect a.ledger b.ledger");
  EXPECT_EQ(loose.exit_code, 2);
  EXPECT_THAT(loose.err, HasSubstr("a.ledger: lies in no run folder"));
  EXPECT_EQ(bisect("deterministic.run_1.ledger", "fast.run_1.ledger").exit_code, 4);
  EXPECT_THAT(run_program(folder_->path(), "bisect a.ledger b.ledger --tries 0.5").err,
              HasSubstr("--tries 0.5: a whole number from 1 to 1000"));
}

TEST_F(Bisect, HasTheExitCodesOfDiff) {
  const fs::path other = copied("lacking");
  const auto both = [&](const std::string& arguments) {
    const std::string runs = run().string() + " lacking " + arguments;
    const int code = run_program(folder_->path(), "bisect " + runs).exit_code;
    EXPECT_EQ(code, run_program(folder_->path(), "diff " + runs).exit_code) << arguments;
    return code;
  };
  EXPECT_EQ(both(""), 0);
  fs::remove(other / "sound.run_2.ledger");
  EXPECT_EQ(both(""), 4);
  for (const char* left : {"sound.run_1.ledger", "sound.relaunch.ledger"}) fs::remove(other / left);
  EXPECT_EQ(both("--arm sound"), 4);
  EXPECT_EQ(both("--arm nobody"), 2);
}

TEST_F(Bisect, TakesBitsThatDifferBeforeWhatCannotBeCompared) {
  const fs::path other = copied("mixed");
  const auto put = fs::copy_options::overwrite_existing;
  fs::copy_file(ledgers_ / "fast.run_1.ledger", other / "deterministic.relaunch.ledger", put);
  fs::copy_file(ledgers_ / "deterministic.run_1.ledger", other / "deterministic.run_2.ledger", put);
  const Outcome outcome =
      run_program(folder_->path(), "bisect " + run().string() + " mixed --json out.json");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("deterministic.run_2.ledger"));
  EXPECT_EQ(result()["origin"]["tensor"], "dq");
  EXPECT_THAT(outcome.err, HasSubstr("1 more ledgers differ"));
}

TEST_F(Bisect, WritesOverNoFileOfTheRuns) {
  const std::string suite = (run() / "suite.yaml").string(), whole = read_text(suite);
  const std::string runs = run().string() + ' ' + run().string();
  for (const std::string& command : {"bisect " + runs, "diff " + runs})
    EXPECT_EQ(run_program(folder_->path(), command + " --json " + suite).exit_code, 2) << command;
  EXPECT_EQ(read_text(suite), whole);
}

TEST_F(Bisect, SaysThatAFolderIsNone) {
  const Outcome outcome =
      bisect("sound.run_1.ledger", "sound.run_2.ledger", "--output-dir /dev/null/x");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("--output-dir /dev/null/x is no folder"));
}

}  // namespace
}  // namespace dettax
