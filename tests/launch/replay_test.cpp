#include "harness/launch/replay.h"

#include <array>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/ledger.h"
#include "harness/launch/ledgers.h"
#include "harness/launch/run_case.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

class ReplaySpec : public ::testing::Test {
 protected:
  ReplaySpec()
      : suite_(testing::tiny_suite(folder_.path(), "  - {threads: 2}\n", "[invariant]")),
        case_id_(suite_.cases.at(0).id()) {}
  ArmSpec of(const std::string& arm, const std::string& run) {
    return replay_spec(suite_, ledger_place(case_id_ + "/" + arm + "." + run + ".ledger"));
  }

  testing::TemporaryFolder folder_;
  const Suite suite_;
  const std::string case_id_;
};

TEST_F(ReplaySpec, IsTheArmOnItsCase) {
  EXPECT_EQ(of("control", "run_2").mode.name, "fast");
  const ArmSpec spec = of("invariant", "relaunch");
  EXPECT_EQ(spec.arm, "invariant");
  EXPECT_EQ(spec.planned.id(), case_id_);
  EXPECT_EQ(spec.placement, RankPlacement::planned);
}

TEST_F(ReplaySpec, ChangesTheCaseAsTheRunDid) {
  EXPECT_EQ(of("invariant", "other_allocation").placement, RankPlacement::swapped);
  EXPECT_EQ(of("invariant", "threads_3").planned.topology.threads_per_rank, 3);
  const ArmSpec other = of("invariant", "dp_2__micro-batch_1");
  EXPECT_EQ(other.planned.batch.micro, 1);
  EXPECT_EQ(other.planned.layout.dp, 2);
}

TEST_F(ReplaySpec, SaysWhatTheSuiteDoesNotHave) {
  EXPECT_THAT(refusal_of([&] { of("megatron-det", "run_1"); }), HasSubstr("no arm megatron-det"));
  EXPECT_THAT(refusal_of([&] { of("fast", "threads_7"); }), HasSubstr("a run named threads_7"));
  EXPECT_THAT(refusal_of([&] { replay_spec(suite_, ledger_place("other/fast.run_1.ledger")); }),
              HasSubstr("no case other"));
}

// A run whose ledgers are shallow and whose deterministic arm has sums in another order from step 5 on.
class ReplayFromCheckpoint : public ::testing::Test {
 protected:
  static constexpr int64_t kStep = 5;

  void record(const std::string& keys) {
    suite_ = testing::tiny_suite(
        folder_.path(), "  - {model: {base: gpt-tiny, layers: 2, dropout: 0.1}, " + keys +
                            ", injections: [{kind: reorder, arm: deterministic, step: 5, op: "
                            "backward/layer1/mlp_up_weight}]}\n");
    suite_.evidence.steps = kStep + 1;
    suite_.evidence.depth = LedgerDepth::step;
    suite_.evidence.checkpoint_every = 2;
    launcher_ = make_thread_launcher(testing::launch_settings(folder_.path()));
    for (ArmSpec& one : arm_specs(suite_.cases.at(0), suite_)) {
      if (one.arm == "deterministic") spec_ = std::move(one);
    }
    folders_ = ledger_folders(folder_.path() / "run", spec_.planned.id());
    std::filesystem::create_directories(folders_.ledgers);
    const auto group = launcher_->start(spec_, "recorded");
    LedgerRuns runs(suite_.evidence, *launcher_, folders_, [](const std::string&) {});
    runs.in_process(*group, 2);
    not_saved_ = runs.not_saved();
  }
  std::filesystem::path ledger(const char* run) const {
    return folders_.ledgers / ("deterministic." + std::string(run) + ".ledger");
  }
  std::filesystem::path checkpoint(int step) const {
    return checkpoint_folder(folders_, "deterministic") / ("step_0000000" + std::to_string(step));
  }
  LedgerDiff recorded() const {
    const auto a = ledger("run_1"), b = ledger("run_2");
    return diff_ledgers(*open_ledger(a), a.string(), *open_ledger(b), b.string());
  }
  ReplayStart start() const {
    const auto a = open_ledger(ledger("run_1")), b = open_ledger(ledger("run_2"));
    const auto kept = checkpoint_folder(folders_, "deterministic");
    const std::array runs{RecordedRun{"A", a.get(), kept}, RecordedRun{"B", b.get(), kept}};
    return nearest_start(runs, kStep);
  }
  BisectReport replayed(const ReplayStart& start) {
    BisectReport report;
    report.recorded = recorded();
    ReplaySettings settings;
    settings.start = start;
    settings.steps = kStep + 1 - start.step;
    settings.folder = folder_.path();
    settings.on_run = [](const std::string&) {};
    const auto side = [&](const char* run) {
      return Replayed{spec_, {spec_.planned.id(), "deterministic", run}, launcher_.get()};
    };
    replay(side("run_1"), side("run_2"), settings, report);
    return report;
  }
  // The same entry of both recorded runs, as if something else had been trained.
  void bend(int64_t step, const std::string& tensor) const {
    for (const char* run : {"run_1", "run_2"}) {
      std::ifstream in(ledger(run), std::ios::binary);
      Ledger changed = read_ledger(in, run);
      for (auto& entries : changed.ranks) {
        for (LedgerEntry& one : entries) {
          if (one.step == step && one.path == "state" && one.tensor == tensor) one.value.lane0 ^= 1;
        }
      }
      std::ofstream out(ledger(run), std::ios::binary);
      write_ledger(out, changed);
    }
  }

  testing::TemporaryFolder folder_;
  Suite suite_;
  ArmSpec spec_;
  LedgerFolders folders_;
  std::unique_ptr<Launcher> launcher_;
  std::vector<std::string> not_saved_;
};

// Place in the data, random numbers (dropout), moments; loss scale; fp8 history.
TEST_F(ReplayFromCheckpoint, GoesOnAsTheRecordedRunDidInEveryPrecision) {
  for (const char* precision : {"fp16", "fp8_ds"}) {
    record(std::string("precision: ") + precision);
    EXPECT_THAT(not_saved_, ::testing::IsEmpty());
    ASSERT_TRUE(recorded().comparison.first) << precision;
    EXPECT_EQ(recorded().comparison.first->step, kStep);
    const ReplayStart nearest = start();
    EXPECT_EQ(nearest.checkpoint, checkpoint(4)) << precision;
    EXPECT_THAT(nearest.passed_over, ::testing::IsEmpty());
    const BisectReport report = replayed(nearest);
    EXPECT_EQ(report.not_repeated, "") << precision;
    EXPECT_GT(report.repeated, 100);
    ASSERT_TRUE(report.replayed) << precision;
    EXPECT_EQ(report.replayed->comparison.first->path, "backward/layer1/mlp_up_weight");
    EXPECT_EQ(report.replayed->comparison.first->step, kStep);
  }
}

TEST_F(ReplayFromCheckpoint, EndsWhereTheOneFromTheResetEnds) {
  record("layout: dp2.zero1");
  const BisectReport far = replayed({}), near = replayed(start());
  ASSERT_TRUE(far.replayed && near.replayed);
  EXPECT_EQ(near.replayed->comparison.first->path, far.replayed->comparison.first->path);
  EXPECT_EQ(near.replayed->comparison.first->tensor, far.replayed->comparison.first->tensor);
  EXPECT_EQ(near.replayed->comparison.first->step, far.replayed->comparison.first->step);
  EXPECT_EQ(near.runs, far.runs);
  EXPECT_GT(far.repeated, near.repeated);
}

TEST_F(ReplayFromCheckpoint, PassesOverADamagedOneAndSaysSo) {
  record("layout: dp2");
  const std::filesystem::path shard = checkpoint(4) / "rank_00000.safetensors";
  std::string bytes = testing::read_text(shard);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(shard, std::ios::binary) << bytes;
  const ReplayStart one_before = start();
  EXPECT_EQ(one_before.checkpoint, checkpoint(2));
  ASSERT_EQ(one_before.passed_over.size(), 1U);
  EXPECT_THAT(one_before.passed_over[0], HasSubstr("step_00000004/rank_00000.safetensors: tensor"));
  EXPECT_EQ(replayed(one_before).not_repeated, "");
  std::filesystem::remove(checkpoint(2) / "manifest.json");
  EXPECT_EQ(start().step, 0);
  EXPECT_EQ(start().passed_over.size(), 2U);
}

TEST_F(ReplayFromCheckpoint, PassesOverOneThatIsNotOfTheRecordedRun) {
  record("layout: dp2");
  bend(3, "data.step");
  const ReplayStart one_before = start();
  EXPECT_EQ(one_before.step, 2);
  ASSERT_EQ(one_before.passed_over.size(), 1U);
  EXPECT_THAT(one_before.passed_over[0],
              HasSubstr("is not of the run that was recorded: its data.step is not what A has"));
  // What the record has there the replay does not have either.
  EXPECT_THAT(replayed(one_before).not_repeated, HasSubstr("step 3, rank 0, state: data.step"));
}

TEST_F(ReplayFromCheckpoint, PassesOverOneUnderAnothersName) {
  record("layout: dp2");
  std::filesystem::remove_all(checkpoint(4));
  std::filesystem::copy(checkpoint(2), checkpoint(4), std::filesystem::copy_options::recursive);
  EXPECT_EQ(start().step, 2);
  EXPECT_THAT(start().passed_over.at(0), HasSubstr("step_00000004: is of step 2"));
}

// The run goes on, and says why there are none.
TEST_F(ReplayFromCheckpoint, IsMissedWhereNothingCouldBeSaved) {
  std::filesystem::create_directories(folder_.path() / "run");
  std::ofstream(folder_.path() / "run/checkpoints") << "no folder";
  record("layout: dp2");
  EXPECT_EQ(recorded().comparison.first->step, kStep);
  ASSERT_EQ(not_saved_.size(), 1U);
  EXPECT_THAT(not_saved_[0], HasSubstr("deterministic: no checkpoints are saved: rank 0: "));
  EXPECT_THAT(not_saved_[0], HasSubstr("cannot be used: Not a directory"));
  EXPECT_THAT(not_saved_[0], ::testing::Not(HasSubstr("filesystem error")));
  EXPECT_EQ(start().step, 0);
  EXPECT_THAT(start().passed_over.at(0), HasSubstr("cannot be read: Not a directory"));
}

}  // namespace
}  // namespace dettax
