// A ledger of a real training step.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "harness/device/device.h"
#include "tests/evidence/ledgers.h"
#include "tests/small_models.h"

namespace dettax {
namespace {

using testing_support::gpt_model;
using testing_support::mode_with;

Case tiny_case() {
  Case planned;
  planned.model = gpt_model({.name = "tiny",
                             .vocabulary = 128,
                             .context = 16,
                             .layers = 2,
                             .width = 32,
                             .heads = 2,
                             .ffn_width = 64});
  planned.batch = {2, 4, 16};
  return planned;
}

Mode ordered_mode() {
  Mode mode = mode_with("deterministic", Order::ordered);
  mode.knobs.overlap = false;
  return mode;
}

Ledger recorded(uint64_t seed, int steps) {
  Ledger ledger = sample_ledger(steps);
  ledger.ranks.clear();
  const auto device = make_cpu_device(2, false);
  run_ranks(1, false, [&](Communicator& communicator) {
    TrainStep step(tiny_case(), ordered_mode(), *device, communicator);
    ledger.ranks.push_back(record_ledger(step, *device, seed, steps));
  });
  return ledger;
}

TEST(RecordLedger, TwoRunsOfAnOrderedStepAgreeAndAnotherSeedDoesNot) {
  const Ledger first = recorded(1, 2);
  const LedgerComparison same = compare_ledgers(first, recorded(1, 2));
  EXPECT_TRUE(same.equal) << same.description;
  EXPECT_FALSE(compare_ledgers(first, recorded(2, 2)).equal)
      << "the comparison must be able to fail";
}

TEST(RecordLedger, HoldsStateBeforeAndAfterEveryStepAndOpsBetween) {
  const Ledger ledger = recorded(1, 2);
  std::set<std::pair<int64_t, std::string>> seen;
  for (const LedgerEntry& e : ledger.ranks[0]) seen.insert({e.step, e.path});
  for (int64_t step : {-1, 0, 1}) EXPECT_TRUE(seen.contains({step, "state"})) << step;
  EXPECT_FALSE(seen.contains({-1, "result"}));
  for (int64_t step : {0, 1}) {
    EXPECT_TRUE(seen.contains({step, "result"}));
    EXPECT_TRUE(seen.contains({step, "reduce/gradients"}));
    EXPECT_GT(std::count_if(seen.begin(), seen.end(),
                            [&](const auto& s) {
                              return s.first == step &&
                                     s.second.find("attention") != std::string::npos;
                            }),
              2);
  }
}

std::set<std::pair<std::string, std::string>> names_at(LedgerDepth depth) {
  std::set<std::pair<std::string, std::string>> seen;
  Case planned = tiny_case();
  planned.model.dropout = 0.1;
  const auto device = make_cpu_device(1, false);
  run_ranks(1, false, [&](Communicator& communicator) {
    TrainStep step(planned, ordered_mode(), *device, communicator);
    record_ledger(step, *device, 1, 1, depth,
                  [&](int64_t, const LedgerNames& names, const LedgerColumns& columns) {
                    for (const uint32_t n : columns.names)
                      seen.insert({names.at(n).path, names.at(n).tensor});
                  });
  });
  return seen;
}

TEST(RecordLedger, EachDepthHoldsWhatTheOneBeforeItDoes) {
  const auto step = names_at(LedgerDepth::step), layer = names_at(LedgerDepth::layer),
             op = names_at(LedgerDepth::op);
  EXPECT_TRUE(std::ranges::includes(op, layer));
  EXPECT_TRUE(std::ranges::includes(layer, step));
  EXPECT_LT(step.size(), layer.size());
  EXPECT_LT(layer.size(), op.size());
  EXPECT_TRUE(step.contains({"micro0/forward/data", "tokens"}));
  EXPECT_TRUE(step.contains({"reduce/gradients", "layer0.norm1.weight.grad"}));
  EXPECT_TRUE(step.contains({"state", "layer1.mlp.up.weight.second_moment"}));
  EXPECT_FALSE(step.contains({"micro1/forward/layer0/mlp_residual", "y"}));
  EXPECT_TRUE(layer.contains({"micro1/forward/layer0/mlp_residual", "y"}));
  EXPECT_FALSE(layer.contains({"micro1/forward/layer0/attention", "out"}));
  EXPECT_TRUE(op.contains({"micro1/forward/layer0/attention", "out"}));
  EXPECT_TRUE(op.contains({"micro1/forward/layer1/mlp_dropout", "random.position before"}));
}

}  // namespace
}  // namespace dettax
