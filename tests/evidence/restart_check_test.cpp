// What a restart brings back, and what is said of what it does not. cases/restart.md.
#include "harness/evidence/restart_check.h"

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/communicator.h"
#include "harness/plan/suite.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/rank_states.h"
#include "tests/memory_folder.h"
#include "tests/one_infinity.h"
#include "tests/small_models.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::MemoryFolder;
using testing_support::mode_with;
using testing_support::OneInfinity;
using testing_support::small_gpt_model;
namespace fs = std::filesystem;

struct Steps {
  int save_at = 2, all = 3;
  LedgerDepth depth = LedgerDepth::op;
};

// Three groups of ranks, one after the other.
class Restart {
 public:
  Restart(const Case& planned, const Mode& mode, const Steps& steps = {})
      : planned_(planned), mode_(mode), steps_(steps) {
    head_.case_id = planned.id();
    head_.mode = head_.mode_hash = mode.name;
    head_.ranks.resize(static_cast<size_t>(planned.layout.ranks()));
    straight_ = record(0, steps.all, [](TrainStep&, Device&) {});
    saved_ = record(0, steps.save_at, [](TrainStep&, Device&) {}, true);
    head_.steps = steps.all;
    checkpoint_ = nearest_checkpoint(folder_.path())->path;
    tables_ = states_of(read_manifest(checkpoint_));
  }

  const fs::path& checkpoint() const { return checkpoint_; }
  RestartVerdict verdict(const std::set<std::string>& leave_out = {}) {
    StateTables fresh, restored;
    const Ledger resumed = record(steps_.save_at, steps_.all, [&](TrainStep& train, Device&) {
      train.reset(kNoSeed);
      auto before = gather_states(train.mesh().world(), describe_state(train));
      load_checkpoint(checkpoint_, train, {leave_out});
      auto after = gather_states(train.mesh().world(), describe_state(train));
      if (train.mesh().world().rank() != 0) return;
      fresh = std::move(before);
      restored = std::move(after);
    });
    RestartVerdict verdict = judge_restart(*view_ledger(straight_), *view_ledger(saved_),
                                           *view_ledger(resumed), steps_.save_at);
    verdict.items = judge_items(tables_, restored, fresh);
    return verdict;
  }

 private:
  template <typename Begin>
  Ledger record(int from, int steps, const Begin& begin, bool save = false) {
    Ledger ledger = head_;
    ledger.steps = steps;
    run_ranks(planned_.layout.ranks(), false, [&](Communicator& communicator) {
      const auto device = make_cpu_device(planned_.topology.threads_per_rank, false);
      TrainStep train(planned_, mode_, *device, communicator);
      auto& entries = ledger.ranks[static_cast<size_t>(communicator.rank())];
      const auto keep = [&](int64_t step, const LedgerNames& names, const LedgerColumns& columns) {
        for (size_t i = 0; i < columns.size(); ++i) {
          const LedgerName& name = names.at(columns.names[i]);
          entries.push_back({step, name.path, name.tensor, columns.values[i]});
        }
      };
      if (from == 0) train.reset(planned_.seed);
      begin(train, *device);
      OneInfinity infinity;
      const auto step = [&] {
        const bool due =
            planned_.precision == Precision::fp16 && train.steps_done() == 0 && from == 0;
        train.inject(due ? &infinity : nullptr);
        const StepResult result = train.step();
        train.inject(nullptr);
        return result;
      };
      continue_ledger(train, *device, {from, steps, steps_.depth}, keep, step);
      if (!save) return;
      CheckpointSaver saver({folder_.path(), 0}, communicator);
      saver.schedule(train);
      saver.finish();
    });
    return ledger;
  }

  const MemoryFolder folder_;
  const Case planned_;
  const Mode mode_;
  const Steps steps_;
  Ledger head_, straight_, saved_;
  fs::path checkpoint_;
  StateTables tables_;
};

Case small_case(Precision precision = Precision::fp32) {
  Case planned;
  planned.model = small_gpt_model();
  planned.precision = precision;
  planned.batch = {2, 2, 16};
  return planned;
}

const RestartItem& item(const RestartVerdict& verdict, const std::string& name) {
  const auto found = std::ranges::find(verdict.items, name, &RestartItem::item);
  if (found == verdict.items.end()) throw std::runtime_error("no item " + name);
  return *found;
}

std::string text_of(const RestartVerdict& verdict) {
  std::ostringstream out;
  write_restart(out, verdict);
  return out.str();
}

// Nothing is left out: equal. Anything is: that item, and no other, and the steps behind it differ.
void expect_each_item_named(Precision precision, const Steps& steps = {}) {
  Restart restart(small_case(precision), mode_with("ordered", Order::ordered), steps);
  const RestartVerdict whole = restart.verdict();
  EXPECT_EQ(whole.code(), ExitCode::pass) << text_of(whole);
  for (const RestartItem& one : whole.items) {
    EXPECT_FALSE(one.blind) << one.item;
    const RestartVerdict without = restart.verdict({one.item});
    EXPECT_EQ(without.code(), ExitCode::not_bit_exact) << one.item;
    EXPECT_FALSE(without.after.equal) << one.item;
    for (const RestartItem& other : without.items)
      EXPECT_EQ(other.same, other.item != one.item) << other.item << " without " << one.item;
    EXPECT_THAT(item(without, one.item).words, HasSubstr("missing from the checkpoint"));
    EXPECT_THAT(text_of(without), HasSubstr("did not: " + one.item));
  }
}

TEST(RestartCheck, NamesTheItemThatIsLeftOutEachOneTried) {
  expect_each_item_named(Precision::fp32);
  expect_each_item_named(Precision::fp16);
  expect_each_item_named(Precision::fp8_ds);
}

TEST(RestartCheck, SaysWhatItIsBlindFor) {
  Case planned = small_case(Precision::bf16);
  Restart restart(planned, mode_with("ordered", Order::ordered), {0, 1});
  const RestartVerdict verdict = restart.verdict();
  EXPECT_EQ(verdict.code(), ExitCode::pass);
  EXPECT_TRUE(item(verdict, "optimizer.first_moment").blind);
  EXPECT_FALSE(item(verdict, "weights").blind);
  EXPECT_THAT(text_of(verdict), HasSubstr("would not have shown: "));
  // Asked to leave it out, the check did not fail as it must, which is no pass.
  RestartVerdict asked = verdict;
  for (RestartItem& one : asked.items) one.left_out = one.item == "optimizer.first_moment";
  EXPECT_EQ(asked.code(), ExitCode::inconclusive);
  EXPECT_THAT(text_of(asked), HasSubstr("left out, which does not show, for a fresh start has "
                                        "it too: optimizer.first_moment\n"));
  EXPECT_THAT(text_of(asked), Not(HasSubstr("came through: weights, optimizer.first_moment")));
}

// Those of up to four ranks that lay state out in a way of their own; `dettax restart-check parallelism` tries all.
TEST(RestartCheck, PassesOnTheLayoutsOfTheParallelismSuite) {
  const Suite suite = load_suite(DETTAX_SOURCE_DIR "/suites/parallelism.yaml");
  std::set<std::string> seen;
  for (Case planned : suite.cases) {
    const Layout& layout = planned.layout;
    if (layout.ranks() > 4 || layout.recompute != Recompute::none ||
        layout.schedule == PipelineSchedule::gpipe)
      continue;
    if (!seen.insert(to_string(planned.layout) + (planned.model.moe ? " experts" : "")).second)
      continue;
    Model& model = planned.model;  // its design at the least size
    model.vocabulary = model.width = model.ffn_width = 64;
    model.context = planned.batch.sequence_length = 16;
    model.head_width = model.width / model.heads;
    if (model.moe) model.moe->expert_width = 16;
    planned.topology.threads_per_rank = 1;
    Restart restart(planned, suite.modes.front(), {1, 2, LedgerDepth::step});
    const RestartVerdict verdict = restart.verdict();
    EXPECT_EQ(verdict.code(), ExitCode::pass) << text_of(verdict);
  }
  EXPECT_GT(seen.size(), 12U);
}

// Made tables: this trainer's streams are no rank's own.
TEST(Case, Restart01OneRanksStateOnAllIsNamed) {
  const auto entry = [](const char* name, uint64_t bits) {
    return StateEntry{
        name, name, StateType::u64, {}, fingerprint(&bits, 1, sizeof bits), std::to_string(bits)};
  };
  StateTables saved, restored, fresh;
  for (uint64_t rank = 0; rank < 4; ++rank) {
    saved.push_back(
        {entry("weights", 7), entry("optimizer", 8), entry("rng.expert", 1 + 100 * rank)});
    restored.push_back({entry("weights", 7), entry("optimizer", 8), entry("rng.expert", 1)});
    fresh.push_back({entry("weights", 0), entry("optimizer", 0), entry("rng.expert", 0)});
  }
  const auto items = judge_items(saved, restored, fresh);
  ASSERT_EQ(items.size(), 3U);
  EXPECT_TRUE(items[0].same);
  EXPECT_TRUE(items[1].same);
  EXPECT_FALSE(items[2].same);
  EXPECT_EQ(items[2].ranks, (std::vector{1, 2, 3}));
  EXPECT_EQ(items[2].words, "1 against 101, on ranks 1, 2, 3: equals rank 0's saved state");
}

TEST(Case, Restart02TheOptimizersStepIsFoundByTheStateNotByALoss) {
  Restart restart(small_case(), mode_with("ordered", Order::ordered));
  const RestartVerdict verdict = restart.verdict({"optimizer.updates"});
  EXPECT_THAT(item(verdict, "optimizer.updates").words, StartsWith("0 against 2"));
  ASSERT_TRUE(verdict.after.first);
  EXPECT_EQ(verdict.after.first->step, 2);
  EXPECT_EQ(verdict.after.first->path, "state");  // forward, gradients, loss and norm agreed
  EXPECT_THAT(verdict.after.first->tensor, HasSubstr("weight"));
  EXPECT_TRUE(verdict.after.gradients_agreed);
}

TEST(Case, Restart04TheFirstBatchesOnceMoreAreSeenBeforeAnyOp) {
  Restart restart(small_case(), mode_with("ordered", Order::ordered));
  const RestartVerdict verdict = restart.verdict({"data.step"});
  ASSERT_TRUE(verdict.after.first);
  EXPECT_EQ(verdict.after.first->step, 2);
  EXPECT_THAT(verdict.after.first->path, HasSubstr("/data"));
  EXPECT_EQ(verdict.replayed, "equals step 0's batch");
  EXPECT_EQ(verdict.code(), ExitCode::not_bit_exact);
}

TEST(Case, Restart05TheScalingHistoryIsMissedAndNothingElse) {
  Restart restart(small_case(Precision::fp8_ds), mode_with("ordered", Order::ordered));
  const RestartVerdict verdict = restart.verdict({"operands.history"});
  for (const char* name :
       {"weights", "optimizer.first_moment", "optimizer.second_moment", "optimizer.updates"})
    EXPECT_TRUE(item(verdict, name).same) << name;
  EXPECT_THAT(item(verdict, "operands.history").words, HasSubstr("missing from the checkpoint"));
  ASSERT_TRUE(verdict.after.first);
  EXPECT_EQ(verdict.after.first->step, 2);
  EXPECT_THAT(verdict.after.first->path,
              HasSubstr("layer0/qkv"));  // the first that reads a scaled operand
}

TEST(RestartCheck, TellsInJsonWhatIsNoUtf8) {
  RestartVerdict verdict;
  verdict.case_id = "caf\xe9";
  verdict.error = "k\xe9pt/resumed.log: Is a directory";
  const std::string json = restart_json({verdict}, ExitCode::infrastructure);
  EXPECT_THAT(json, HasSubstr("pt/resumed.log: Is a directory"));
  EXPECT_THAT(json, Not(HasSubstr("\xe9")));
}

}  // namespace
}  // namespace dettax
