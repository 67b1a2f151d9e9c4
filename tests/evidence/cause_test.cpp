#include "harness/evidence/cause.h"

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/rank_agreement.h"
#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;

TEST(OrderingKnob, IsTheOneThatActsOnTheOp) {
  EXPECT_EQ(ordering_knob("micro1/backward/layer3/attention", "dq"), Knob::attention);
  EXPECT_EQ(ordering_knob("backward/embedding", "embedding.weight.grad"), Knob::embedding);
  EXPECT_EQ(ordering_knob("backward/layer0/norm2", "layer0.norm2.weight.grad"), Knob::norm);
  EXPECT_EQ(ordering_knob("backward/layer0/mlp_up_weight", "layer0.mlp_up.weight.grad"),
            Knob::gemm);
  EXPECT_EQ(ordering_knob("forward/head_loss", "head.weight.grad"), Knob::gemm);
  EXPECT_EQ(ordering_knob("forward/loss_sum", "sum"), Knob::loss);
  EXPECT_EQ(ordering_knob("optimizer/gradient_norm", "squares"), Knob::grad_norm);
  EXPECT_EQ(ordering_knob("reduce/gradients", "head.weight.grad"), Knob::collectives);
  EXPECT_EQ(ordering_knob("forward/layer0/attention", "out"), std::nullopt);
  EXPECT_EQ(ordering_knob("backward/layer0/norm2", "dx"), std::nullopt);
}

TEST(CauseOf, SaysWhenNothingIsSummedThere) {
  Ledger other = sample_ledger();
  entry(other, 0, 1, "forward/layer1/attention", "out").value = of(99);
  EXPECT_EQ(cause_of(compare_ledgers(sample_ledger(), other)).name, "no order of sums");
  EXPECT_EQ(cause_of(compare_ledgers(sample_ledger(), sample_ledger())).name, "");
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
  const Cause cause = cause_of(found);
  EXPECT_EQ(cause.name, "collective order");
  EXPECT_THAT(cause.advice, HasSubstr("NCCL_ALGO"));
  EXPECT_THAT(cause.advice, HasSubstr("knob collectives: rank_order"));
}

TEST(Run03, OneRankThatDisagreesIsNoCollectiveOrder) {
  Ledger b = run_with(1);
  entry(b, 2, 0, "reduce/loss", "loss").value = of(2);
  EXPECT_FALSE(ranks_agreement(b).equal);
  EXPECT_THAT(compare_ledgers(run_with(1), b).description,
              HasSubstr("step 0, rank 2, reduce/loss"));
}

}  // namespace
}  // namespace dettax
