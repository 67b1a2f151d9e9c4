#include "harness/evidence/cause.h"

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/rank_agreement.h"
#include "harness/plan/suite.h"
#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Names = std::vector<Knob>;

TEST(OrderingKnobs, AreThoseThatActOnTheOp) {
  EXPECT_EQ(ordering_knobs("micro1/backward/layer3/attention", "dq"), Names{Knob::attention});
  EXPECT_EQ(ordering_knobs("backward/embedding", "embedding.weight.grad"), Names{Knob::embedding});
  EXPECT_EQ(ordering_knobs("backward/layer0/norm2", "layer0.norm2.weight.grad"), Names{Knob::norm});
  EXPECT_EQ(ordering_knobs("backward/layer0/mlp_up_weight", "layer0.mlp_up.weight.grad"),
            Names{Knob::gemm});
  EXPECT_EQ(ordering_knobs("forward/head_loss", "head.weight.grad"), Names{Knob::gemm});
  EXPECT_EQ(ordering_knobs("forward/loss_sum", "sum"), Names{Knob::loss});
  EXPECT_EQ(ordering_knobs("optimizer/gradient_norm", "squares"),
            (Names{Knob::grad_norm, Knob::collectives}));
  EXPECT_EQ(ordering_knobs("reduce/gradients", "head.weight.grad"), Names{Knob::collectives});
  EXPECT_EQ(ordering_knobs("forward/layer0/attention", "out"), Names{});
  EXPECT_EQ(ordering_knobs("backward/layer0/norm2", "dx"), Names{});
}

TEST(CauseOf, SaysWhenNothingIsSummedThere) {
  Ledger other = sample_ledger();
  entry(other, 0, 1, "forward/layer1/attention", "out").value = of(99);
  const auto cause = [](const Ledger& b) {
    return cause_of(compare_ledgers(sample_ledger(), b), Knobs{}, "relaunch");
  };
  EXPECT_EQ(cause(other).name, "no order of sums");
  EXPECT_EQ(cause(sample_ledger()).name, "");
}

Cause cause_at(const std::string& path, const std::string& tensor, const Knobs& knobs,
               const std::string& scope) {
  LedgerComparison found;
  found.first = LedgerEntry{0, path, tensor, of(1)};
  return cause_of(found, knobs, scope);
}

Knobs deterministic_but(const std::string& knob = "", const std::string& value = "") {
  Knobs knobs = load_mode("deterministic").knobs;
  if (!knob.empty()) set_knob(knobs, knob, value);
  return knobs;
}

TEST(CauseOf, NamesTheKnobWhoseValueLetsTheBitsChange) {
  const auto cause = [](const std::string& knob, const std::string& value) {
    return cause_at("micro0/forward/loss_sum", "sum", deterministic_but(knob, value),
                    "same_process");
  };
  EXPECT_EQ(cause("loss", "arrival").name, "order of sums: loss");
  EXPECT_EQ(cause("loss", "arrival").advice, "set knob loss to ordered");
  EXPECT_EQ(cause("schedule", "dynamic").name, "order of sums: schedule");
  EXPECT_EQ(cause("schedule", "dynamic").advice, "set knob schedule to static");
}

TEST(CauseOf, AScheduleIsNotBlamedForSumsThatItDoesNotReach) {
  const Cause cause = cause_at("backward/layer1/attention", "dq",
                               deterministic_but("schedule", "dynamic"), "same_process");
  EXPECT_THAT(cause.advice, HasSubstr("no knob explains it: attention is ordered already"));
}

TEST(CauseOf, AsksForTheValueThatTheScopeNeeds) {
  const std::string weight = "layer0.mlp.up.weight.grad";
  EXPECT_THAT(
      cause_at("micro0/backward/layer0/mlp_up_weight", weight, deterministic_but(), "other_threads")
          .advice,
      HasSubstr("set knob gemm to invariant;"));
  const Cause ranks = cause_at("reduce/gradients", weight, deterministic_but(), "other_ranks");
  EXPECT_EQ(ranks.name, "order of sums: gemm, collectives");
  EXPECT_THAT(ranks.advice,
              HasSubstr("set knob gemm to invariant and knob collectives to invariant"));
  EXPECT_THAT(
      cause_at("reduce/gradients", weight, deterministic_but("gemm", "invariant"), "other_ranks")
          .advice,
      HasSubstr("set knob collectives to invariant;"));
}

TEST(CauseOf, NamesNoKnobThatHasNothingToActOn) {
  Ledger dense = sample_ledger();
  dense.model = {{"experts", 0}};
  EXPECT_EQ(absent_knobs(dense, 2), Names{Knob::moe});
  EXPECT_EQ(absent_knobs(dense, 1), (Names{Knob::moe, Knob::collectives}));
  dense.model["experts"] = 8;
  EXPECT_EQ(absent_knobs(dense, 2), Names{});
  EXPECT_EQ(absent_knobs(Ledger{}, 2), Names{}) << "nothing is known of its model";

  LedgerComparison state;
  state.first = LedgerEntry{0, "state", "weight", of(1)};
  const std::string advice =
      cause_of(state, Knobs{}, "relaunch", {Knob::moe, Knob::collectives}).advice;
  EXPECT_THAT(advice, HasSubstr("knob gemm to ordered"));
  EXPECT_THAT(advice, Not(HasSubstr("moe")));
  EXPECT_THAT(advice, Not(HasSubstr("NCCL_ALGO")));
  EXPECT_THAT(cause_of(state, Knobs{}, "relaunch").advice, HasSubstr("knob moe to ordered"));
}

TEST(CauseOf, SaysPlainlyThatNoKnobExplainsIt) {
  Knobs invariant = load_mode("invariant").knobs;
  EXPECT_THAT(
      cause_at("reduce/gradients", "layer0.norm1.weight.grad", invariant, "other_ranks").advice,
      HasSubstr("no knob explains it: norm is invariant already, collectives is invariant "
                "already, which is to keep these bits whatever the number of"));
  EXPECT_THAT(cause_at("backward/layer1/attention", "dq", deterministic_but(), "relaunch").advice,
              HasSubstr("attention is ordered already"));
}

// {1e8, 1, -1e8, 1} of 4 ranks, whose sum in f32 is 0, 1 or 2, by order.
float sum_in(const std::array<size_t, 4>& order) {
  constexpr std::array<float, 4> kParts{1e8f, 1, -1e8f, 1};
  float sum = 0;
  for (const size_t rank : order) sum += kParts[rank];
  return sum;
}

// What a run of 4 ranks shows whose first all-reduce gave `loss`.
Ledger run_with(float loss) {
  Ledger ledger = sample_ledger(1);
  ledger.case_id = "tiny.fp32.dp4.t1.b8x64";
  ledger.data_parallel = 4;
  ledger.ranks.clear();
  for (int rank = 0; rank < 4; ++rank) {
    const auto local = static_cast<float>(rank);
    ledger.ranks.push_back({{0, "forward/loss_sum", "sum", of(local)},
                            {0, "reduce/loss", "loss before", of(local)},
                            {0, "reduce/loss", "loss", of(loss)},
                            {0, "reduce/gradients", "weight.grad before", of(local)},
                            {0, "reduce/gradients", "weight.grad", of(loss + 1)},
                            {0, "result", "loss", of(loss)}});
  }
  return ledger;
}

TEST(Run03, RanksAgreeRunsDoNotAndTheCollectiveIsNamed) {
  const float first = sum_in({0, 1, 2, 3});
  const float second = sum_in({0, 2, 1, 3});
  ASSERT_NE(second, first);
  const Ledger a = run_with(first);
  const Ledger b = run_with(second);
  EXPECT_TRUE(ranks_agreement(a).equal);
  EXPECT_TRUE(ranks_agreement(b).equal);
  const LedgerComparison found = compare_ledgers(a, b);
  EXPECT_FALSE(found.equal);
  EXPECT_EQ(found.first_ranks, 4);
  EXPECT_THAT(found.description, HasSubstr("step 0, all 4 ranks, reduce/loss: loss differs; its "
                                           "inputs agreed on every rank"));
  const Cause cause = cause_of(found, Knobs{}, "same_process");
  EXPECT_EQ(cause.name, "collective order");
  EXPECT_THAT(cause.advice, HasSubstr("NCCL_ALGO"));
  EXPECT_THAT(cause.advice, HasSubstr("set knob collectives to rank_order"));
}

TEST(Run03, OneRankThatDisagreesIsNoCollectiveOrder) {
  Ledger b = run_with(1);
  entry(b, 2, 0, "reduce/loss", "loss").value = of(2);
  EXPECT_FALSE(ranks_agreement(b).equal);
  EXPECT_THAT(compare_ledgers(run_with(1), b).description,
              HasSubstr("step 0, rank 2, reduce/loss"));
}

TEST(CauseOf, NamesAnInputThatWasAnother) {
  const auto cause = [](const std::string& path, const std::string& tensor) {
    return cause_at(path, tensor, Knobs{}, "relaunch").name;
  };
  EXPECT_EQ(cause("micro0/forward/data", "tokens"), "data order");
  EXPECT_EQ(cause("state", "data.step"), "data order");
  EXPECT_EQ(cause("recompute/layer3/projection_dropout", "y"), "RNG position");
  EXPECT_EQ(cause("forward/layer3/mlp_dropout", "random.position before"), "RNG position");
  EXPECT_EQ(cause("reduce/bucket", "bounds before"), "bucket layout");
  EXPECT_EQ(cause("reduce/gradients", "head.weight.grad"), "order of sums: collectives");
}

// With one rank a sum has no inputs to be seen, and an op before it may be the origin.
TEST(CauseOf, AShallowLedgerBlamesNoKnob) {
  LedgerComparison found;
  found.first = LedgerEntry{0, "reduce/gradients", "head.weight.grad", of(1)};
  found.depth = LedgerDepth::layer;
  const Cause cause = cause_of(found, Knobs{}, "relaunch");
  EXPECT_EQ(cause.name, "not told at depth layer");
  EXPECT_NE(cause.advice.find("--depth op"), std::string::npos);
  found.inputs_agreed = true;
  EXPECT_EQ(cause_of(found, Knobs{}, "relaunch").name, "collective order");
}

TEST(CauseOf, AMissingGradientOfAReductionIsAnotherBucketLayout) {
  Ledger other = sample_ledger();
  for (auto& rank : other.ranks) {
    std::erase_if(rank,
                  [](const LedgerEntry& e) { return e.step == 1 && e.tensor == "weight.grad"; });
  }
  EXPECT_EQ(cause_of(compare_ledgers(sample_ledger(), other), Knobs{}, "relaunch").name,
            "bucket layout");
}

}  // namespace
}  // namespace dettax
