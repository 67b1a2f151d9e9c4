#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/evidence/ledger.h"
#include "results/run_folder.h"
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
  const fs::path other = copied("unsaid");
  fs::remove(folder_->path() / "unsaid/suite.yaml");
  EXPECT_THAT(
      run_program(folder_->path(), "bisect " + (other / "deterministic.run_1.ledger").string() +
                                       ' ' + (other / "deterministic.run_2.ledger").string())
          .err,
      HasSubstr("unsaid/suite.yaml: is missing; it says how to repeat "));
}

TEST_F(Bisect, SkipsWhatThisMachineHasNoBackendFor) {
  const fs::path recorded = copied("device");
  fs::path other = recorded;
  fs::rename(recorded, other += ".cuda");  // the id of such a case ends so
  const fs::path suite = other.parent_path().parent_path() / "suite.yaml";
  std::string text = read_text(suite);
  const size_t at = text.find("backend: cpu");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(suite) << text.replace(at, 12, "backend: cuda");
  const Outcome outcome =
      run_program(folder_->path(), "bisect " + (other / "deterministic.run_1.ledger").string() +
                                       ' ' + (other / "deterministic.run_2.ledger").string());
  EXPECT_EQ(outcome.exit_code, 77) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("backend cuda is not available: "));
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

TEST_F(Bisect, WritesOverNothingThatLedgersAreReadWith) {
  const std::string a = "deterministic.run_1.ledger", b = "deterministic.run_2.ledger";
  const std::string both = "bisect " + (ledgers_ / a).string() + ' ' + (ledgers_ / b).string();
  const auto refused = [&](const std::string& flags) {
    const Outcome outcome = run_program(folder_->path(), both + ' ' + flags);
    EXPECT_EQ(outcome.exit_code, 2) << flags << outcome.err;
    return outcome.err;
  };
  const std::string suite = (run() / "suite.yaml").string(), whole = read_text(suite);
  EXPECT_THAT(refused("--json " + suite), HasSubstr("is what is read as A"));
  EXPECT_EQ(read_text(suite), whole);
  refused("--json " + (run() / "run.lock").string());
  refused("--json " + (ledgers_ / "fast.run_1.ledger").string());
  EXPECT_THAT(refused("--output-dir " + ledgers_.string()), HasSubstr("is read as A"));
  refused("--output-dir " + (ledgers_ / "new").string());
  EXPECT_FALSE(fs::exists(ledgers_ / "new"));
  refused("--output-dir kept --json kept/replay_2.ledger");
  // What an earlier one kept is compared as any other.
  fs::create_directories(folder_->path() / "earlier");
  fs::copy_file(ledgers_ / a, folder_->path() / "earlier/replay_1.ledger");
  const Outcome earlier =
      run_program(folder_->path(), "bisect earlier/replay_1.ledger " + (ledgers_ / b).string() +
                                       " --output-dir earlier");
  EXPECT_EQ(earlier.exit_code, 2);
  EXPECT_EQ(read_text(folder_->path() / "earlier/replay_1.ledger"), read_text(ledgers_ / a));
}

TEST_F(Bisect, OfARunThatNothingRepeatsKeepsTheDifference) {
  const fs::path other = copied("strange");
  fs::copy_file(other / "deterministic.run_2.ledger", other / "deterministic.strange.ledger");
  const Outcome outcome =
      run_program(folder_->path(), "bisect " + (other / "deterministic.run_1.ledger").string() +
                                       ' ' + (other / "deterministic.strange.ledger").string());
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no replay: deterministic.strange.ledger: nothing says how a "
                                     "run named strange is repeated"));
}

// `diff` asks what a mode promises only where that decides.
TEST_F(Bisect, DiffOfOneArmDoesNotMissAPromise) {
  const fs::path other = copied("untold");
  for (const auto& entry : fs::directory_iterator(other)) {
    std::ifstream in(entry.path(), std::ios::binary);
    Ledger ledger = read_ledger(in, entry.path().string());
    ledger.claims_reproducible.reset();
    std::ofstream out(entry.path(), std::ios::binary);
    write_ledger(out, ledger);
  }
  fs::remove(folder_->path() / "untold" / (other.filename().string() + ".json"));
  const auto said = [&](const std::string& flags) {
    return run_program(folder_->path(), "diff untold untold" + flags).err;
  };
  EXPECT_THAT(said(""), HasSubstr("neither record nor ledger says"));
  EXPECT_THAT(said(" --arm sound"), ::testing::Not(HasSubstr("neither record")));
}

// Sums of the deterministic arm follow where its ranks lie; those of the invariant arm are in another order in every run.
class BisectScopes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    testing::write_suite(
        folder_->path(),
        testing::tiny_suite_yaml("  - {topology: {nodes: 2, ranks_per_node: 1}, injections: "
                                 "[{kind: reorder_elsewhere, arm: deterministic, step: 1}, "
                                 "{kind: reorder, arm: invariant, step: 1, op: "
                                 "backward/layer1/attention, tensor: dq}]}\n",
                                 "[deterministic, invariant]"));
    const Outcome run =
        run_program(folder_->path(),
                    "run test.yaml -C evidence.depth=step -C evidence.controls=false "
                    "-C evidence.other_allocation=true --no-progress --output-dir runs");
    ASSERT_EQ(run.exit_code, 5) << run.err;
    const fs::path run_folder = fs::directory_iterator(folder_->path() / "runs")->path();
    ledgers_ = fs::directory_iterator(run_folder / "ledgers")->path();
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static Outcome bisect(const std::string& arm, const std::string& run,
                        const std::string& flags = "") {
    return run_program(folder_->path(), "bisect " + (ledgers_ / (arm + ".run_1.ledger")).string() +
                                            ' ' +
                                            (ledgers_ / (arm + '.' + run + ".ledger")).string() +
                                            " --json out.json " + flags);
  }
  static nlohmann::json result() {
    return nlohmann::json::parse(read_text(folder_->path() / "out.json"));
  }

  static std::unique_ptr<testing::TemporaryFolder> folder_;
  static fs::path ledgers_;
};
std::unique_ptr<testing::TemporaryFolder> BisectScopes::folder_;
fs::path BisectScopes::ledgers_;

// A relaunch where the plan puts it would be equal.
TEST_F(BisectScopes, PutRanksElsewhereAgain) {
  const Outcome outcome = bisect("deterministic", "other_allocation");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("runs differ again, found in 2 runs"));
  const nlohmann::json json = result();
  EXPECT_EQ(json["origin"]["step"], 1);
  EXPECT_THAT(json["origin"]["op"].get<std::string>(), HasSubstr("reduce/"));
  EXPECT_EQ(json["replay"]["not_moved"], false);
  EXPECT_EQ(bisect("deterministic", "relaunch").exit_code, 0);
}

TEST_F(BisectScopes, TakeOtherThreadsAgain) {
  EXPECT_EQ(bisect("invariant", "threads_3").exit_code, 4);
  const Outcome outcome = bisect("invariant", "threads_3", "--other-layout");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("origin: step 1, rank 0, backward/layer1/attention: dq"));
  EXPECT_EQ(result()["replayed"]["b"]["case_id"].get<std::string>().find(".t3."),
            std::string("gpt-tiny.fp32.dp2").size());
}

TEST_F(BisectScopes, SayWhyOtherRanksTellNoMore) {
  const Outcome outcome = bisect("invariant", "dp_2__micro-batch_1", "--other-layout");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no replay: with other micro-batches or ranks the ops of one "
                                     "have no counterpart"));
}

// Sums end in another order late in the run.
TEST(BisectFromCheckpoint, RunsFewerStepsToTheSameOp) {
  // Checkpoints have whole paths, and those need not be UTF-8.
  const testing::TemporaryFolder around;
  const fs::path folder = around.path() / "k\xe9pt";
  fs::create_directory(folder);
  testing::write_suite(
      folder,
      testing::tiny_suite_yaml(
          "  - {layout: dp1, batch: {micro: 2, global: 4, sequence_length: 32}, injections: "
          "[{kind: reorder, arm: deterministic, step: 7, op: micro1/backward/layer1/attention, "
          "tensor: dq}]}\n"));
  EXPECT_THAT(run_program(folder,
                          "run test.yaml --dry-run -C evidence.steps=9 "
                          "-C evidence.checkpoint_every=3")
                  .out,
              HasSubstr("checkpoints: 2 of 1 arm, about "));
  const Outcome run = run_program(
      folder,
      "run test.yaml -C evidence.depth=step -C evidence.controls=false -C evidence.steps=9 "
      "-C evidence.checkpoint_every=3 --no-progress --output-dir runs");
  ASSERT_EQ(run.exit_code, 5) << run.err;
  const fs::path run_folder = fs::directory_iterator(folder / "runs")->path();
  const fs::path ledgers = fs::directory_iterator(run_folder / "ledgers")->path();
  const fs::path kept = run_folder / "checkpoints" / ledgers.filename() / "deterministic";
  ASSERT_TRUE(fs::exists(kept / "step_00000006/manifest.json"));
  EXPECT_FALSE(fs::exists(run_folder / "checkpoints" / ledgers.filename() / "fast"));
  const auto named = [&](const fs::path& path) { return fs::relative(path, folder).string(); };
  const auto bisect = [&](const std::string& flags = "") {
    const Outcome outcome = run_program(
        folder, "bisect " + named(ledgers / "deterministic.run_1.ledger") + ' ' +
                    named(ledgers / "deterministic.relaunch.ledger") + " --json out.json" + flags);
    EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
    return std::pair(outcome.out, nlohmann::json::parse(read_text(folder / "out.json")));
  };
  const auto [text, near] = bisect();
  EXPECT_THAT(text,
              HasSubstr("replayed steps 6 to 7 op by op from " + fs::canonical(kept).string()));
  EXPECT_EQ(near["replay"]["first_step"], 6);
  EXPECT_EQ(near["replay"]["steps"], 2);
  EXPECT_EQ(near["runs"], 2);
  EXPECT_THAT(near["replay"]["checkpoint"].get<std::string>(), HasSubstr("step_00000006"));
  EXPECT_GT(near["replay"]["repeated"], 100);
  EXPECT_EQ(near["replay"]["not_repeated"], nullptr);
  EXPECT_EQ(near["origin"]["op"], "micro1/backward/layer1/attention");
  EXPECT_EQ(run_program(folder, "bisect " + named(run_folder) + ' ' + named(run_folder) +
                                    " --output-dir " + named(kept))
                .exit_code,
            2);

  fs::resize_file(kept / "step_00000006/rank_00000.safetensors", 100);
  const auto [damaged_text, damaged] = bisect();
  EXPECT_THAT(damaged_text, HasSubstr("passed over: "));
  EXPECT_THAT(damaged["replay"]["passed_over"].at(0).get<std::string>(),
              HasSubstr("step_00000006/rank_00000.safetensors"));
  EXPECT_EQ(damaged["replay"]["first_step"], 3);
  EXPECT_EQ(damaged["origin"], near["origin"]);

  fs::remove_all(run_folder / "checkpoints");
  const auto [far_text, far] = bisect();
  EXPECT_THAT(far_text, HasSubstr("replayed steps 0 to 7 op by op from the reset"));
  EXPECT_THAT(far_text, HasSubstr("passed over: " + ledgers.filename().string() +
                                  "/deterministic has no checkpoints although the suite asks for "
                                  "one every 3 steps"));
  EXPECT_EQ(far["replay"]["passed_over"].size(), 1U);
  EXPECT_EQ(far["replay"]["steps"], 8);
  EXPECT_EQ(far["origin"], near["origin"]);
  RunFolder::open(run_folder)
      .journal(kNotSavedEvent, ledgers.filename().string(),
               "deterministic: checkpoint of step 3 is not saved: full");
  EXPECT_THAT(bisect().first, HasSubstr("passed over: deterministic: checkpoint of step 3 is not "
                                        "saved: full"));
}

}  // namespace
}  // namespace dettax
