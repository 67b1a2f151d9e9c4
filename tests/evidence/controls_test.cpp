#include "harness/evidence/controls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/knob_places.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::Optional;

Mode deterministic() {
  Mode mode;
  mode.name = "deterministic";
  mode.hash = "0123456789abcdef";
  for (const KnobInfo& info : knob_table()) {
    if (info.part == TaxPart::ordering) set_knob(mode.knobs, info.name, info.values[1]);
  }
  return mode;
}

Case case_of(int ranks, int threads) {
  Case planned;
  planned.layout.dp = ranks;
  planned.topology.threads_per_rank = threads;
  return planned;
}

TEST(Controls, ExpertsAreAKnobOnlyWhereThereAreAny) {
  Case planned = case_of(1, 2);
  EXPECT_THAT(control_knobs(planned),
              ElementsAre(Knob::gemm, Knob::attention, Knob::embedding, Knob::norm, Knob::loss,
                          Knob::grad_norm, Knob::collectives, Knob::schedule));
  planned.model.moe = Moe{};
  EXPECT_THAT(control_knobs(planned), testing::Contains(Knob::moe));
}

TEST(Controls, WeakenOneKnobAndNothingElse) {
  const Mode mode = deterministic();
  for (const Knob knob : control_knobs(case_of(1, 2))) {
    Mode weak = weakened(mode, knob);
    EXPECT_NE(weak.knobs, mode.knobs) << knob_name(knob);
    EXPECT_NE(weak.hash, mode.hash);
    set_knob(weak.knobs, knob_name(knob), knob_value(mode.knobs, knob));
    EXPECT_EQ(weak.knobs, mode.knobs) << knob_name(knob);
  }
  EXPECT_EQ(weakened(mode, Knob::embedding).name, "deterministic with embedding atomic");
}

TEST(Controls, SayBeforehandWhatACaseCannotShow) {
  const Mode mode = deterministic();
  const auto why = [&](int ranks, int threads, Knob knob) {
    return why_not_shown(case_of(ranks, threads), mode, knob);
  };
  EXPECT_THAT(why(1, 2, Knob::collectives), Optional(std::string("one rank")));
  EXPECT_THAT(why(2, 1, Knob::collectives),
              Optional(std::string("two ranks, whose sum has one order")));
  EXPECT_FALSE(why(3, 1, Knob::collectives));
  Case pairs = case_of(2, 1);
  pairs.layout.tp = 2;
  EXPECT_THAT(why_not_shown(pairs, mode, Knob::collectives),
              Optional(std::string("no sum over more than two ranks, and two have one order")));
  pairs.layout.pp = 2;
  EXPECT_FALSE(why_not_shown(pairs, mode, Knob::collectives));
  EXPECT_THAT(why(4, 1, Knob::grad_norm), Optional(std::string("one compute thread a rank")));
  EXPECT_FALSE(why(4, 2, Knob::grad_norm));
  Case on_device = case_of(1, 1);
  on_device.backend = Backend::cuda;  // it has threads of its own
  EXPECT_FALSE(why_not_shown(on_device, mode, Knob::grad_norm));
  // Tuned chunks of ordered matrix multiplications need no second thread to differ.
  EXPECT_FALSE(why(1, 1, Knob::schedule));
}

TEST(Controls, SayWhatTheModeItselfLeavesOut) {
  Mode mode = deterministic();
  mode.knobs.gemm = Order::arrival;
  EXPECT_THAT(why_not_shown(case_of(1, 2), mode, Knob::gemm),
              Optional(std::string("deterministic has it arrival")));
  mode.knobs.generic_index_ops = true;
  EXPECT_TRUE(why_not_shown(case_of(1, 2), mode, Knob::embedding));
  mode.knobs.gemm = mode.knobs.norm = mode.knobs.loss = mode.knobs.grad_norm = Order::invariant;
  EXPECT_THAT(why_not_shown(case_of(1, 2), mode, Knob::schedule),
              Optional(std::string("no sum depends on who computes what")));
}

TEST(Controls, KnowAKnobsOpsByTheirPaths) {
  EXPECT_TRUE(acts_at(Knob::gemm, "backward/layer1/qkv_weight"));
  EXPECT_TRUE(acts_at(Knob::gemm, "micro3/forward/head_loss"));
  EXPECT_FALSE(acts_at(Knob::gemm, "backward/layer1/attention"));
  EXPECT_FALSE(acts_at(Knob::gemm, "forward/layer1/qkv"));
  EXPECT_TRUE(acts_at(Knob::gemm, "forward/layer1/qkv", Backend::cuda));
  EXPECT_FALSE(acts_at(Knob::norm, "forward/layer1/qkv", Backend::cuda));
  EXPECT_TRUE(acts_at(Knob::attention, "micro0/backward/layer0/attention"));
  EXPECT_FALSE(acts_at(Knob::attention, "forward/layer0/attention"));
  EXPECT_TRUE(acts_at(Knob::loss, "forward/loss_sum"));
  EXPECT_TRUE(acts_at(Knob::collectives, "reduce/gradients"));
  EXPECT_TRUE(acts_at(Knob::collectives, "forward/layer0/tensor_all_reduce"));
  EXPECT_FALSE(acts_at(Knob::collectives, "optimizer/adamw"));
  EXPECT_TRUE(acts_at(Knob::schedule, "optimizer/gradient_norm"));
  EXPECT_FALSE(acts_at(Knob::schedule, "state"));
  EXPECT_FALSE(acts_at(Knob::norm, ""));
}

TEST(Controls, ListAKnobsOps) {
  EXPECT_THAT(ops_of(Knob::attention), ElementsAre("backward/attention"));
  EXPECT_THAT(ops_of(Knob::loss), ElementsAre("loss_sum", "reduce/loss"));
  EXPECT_THAT(ops_of(Knob::schedule), ElementsAre("all"));
  for (const KnobInfo& info : knob_table()) EXPECT_FALSE(ops_of(info.knob).empty()) << info.name;
}

}  // namespace
}  // namespace dettax
