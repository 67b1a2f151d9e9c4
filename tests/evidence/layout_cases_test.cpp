// What another layout, placement or back end does to the bits, and what the ledgers say of it. cases/layout.md.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/communicator.h"
#include "harness/device/number_format.h"
#include "harness/evidence/assemble.h"
#include "harness/evidence/cause.h"
#include "harness/evidence/ledger.h"
#include "tests/small_models.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::mode_with;
using testing_support::small_gpt_model;

Case small_case(const Layout& layout, int64_t micro_batches) {
  Case planned;
  planned.model = small_gpt_model();
  planned.layout = layout;
  planned.topology.ranks_per_node = layout.ranks();
  planned.batch = {1, micro_batches * layout.dp, 16};
  return planned;
}

using Injectors = std::function<std::unique_ptr<StepObserver>()>;

// One group of ranks, `runs` ledgers of it.
std::vector<Ledger> ledgers_of(const Case& planned, const CollectiveSettings& settings, int runs,
                               const Injectors& injectors = {}) {
  constexpr int kSteps = 2;
  Ledger head;
  head.case_id = planned.id();
  head.mode = head.mode_hash = "ordered";
  head.steps = kSteps;
  head.data_parallel = planned.layout.dp;
  head.ranks.resize(static_cast<size_t>(planned.layout.ranks()));
  std::vector<Ledger> ledgers(static_cast<size_t>(runs), head);
  const Mode mode = mode_with("ordered", Order::ordered);
  run_ranks(planned.layout.ranks(), false, settings, [&](Communicator& communicator) {
    const auto device = make_cpu_device(1, false);
    TrainStep train(planned, mode, *device, communicator);
    const auto injector = injectors ? injectors() : nullptr;
    train.inject(injector.get());
    for (Ledger& ledger : ledgers) {
      ledger.ranks[static_cast<size_t>(communicator.rank())] =
          record_ledger(train, *device, planned.seed, kSteps);
    }
  });
  return ledgers;
}

// A run without and one with a fault of this kind on every rank.
template <class Fault>
LedgerComparison with_fault(const Case& planned) {
  const auto without = ledgers_of(planned, {}, 1);
  const auto with = ledgers_of(planned, {}, 1, [] { return std::make_unique<Fault>(); });
  return compare_ledgers(without.front(), with.front());
}

// layout-05: as a library does that orders its sums by where ranks are.
CollectiveSettings placed(const std::vector<int>& node_of_rank, Algorithm algorithm) {
  CollectiveSettings settings;
  settings.algorithm = algorithm;
  settings.node_of_rank = node_of_rank;
  return settings;
}

Evidence after_another_allocation(Algorithm algorithm) {
  const Case planned = small_case({.tp = 4, .pp = 2}, 2);
  ArmLedgers arm;
  arm.arm = "deterministic";
  arm.scopes.push_back(
      {"same_process", ledgers_of(planned, placed({0, 0, 1, 1, 0, 0, 1, 1}, algorithm), 2)});
  arm.scopes.push_back(
      {"other_allocation", ledgers_of(planned, placed({0, 1, 0, 1, 0, 1, 0, 1}, algorithm), 1)});
  return assemble_evidence({arm});
}

TEST(Case, Layout05AnotherAllocationIsSeenAtTheFirstSumOverTensorRanks) {
  const Evidence evidence = after_another_allocation(Algorithm::hierarchical);
  const ArmEvidence& arm = evidence.arms.front();
  EXPECT_TRUE(arm.scopes[0].tested && arm.scopes[0].equal) << arm.scopes[0].first_difference;
  EXPECT_FALSE(arm.scopes[1].equal);
  EXPECT_THAT(arm.scopes[1].first_difference, StartsWith("step 0, "));
  EXPECT_THAT(arm.scopes[1].first_difference,
              HasSubstr("micro0/forward/layer0/tensor_all_reduce: y differs"));
  EXPECT_EQ(arm.scopes[1].cause, "order of sums: collectives");
  EXPECT_FALSE(arm.reproducible);
}

// Sums in the order of ranks do not see where ranks are.
TEST(Case, Layout05OrdersThatFollowRanksKeepTheirBits) {
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::tree}) {
    const Evidence evidence = after_another_allocation(algorithm);
    EXPECT_TRUE(evidence.arms.front().reproducible) << algorithm_name(algorithm);
  }
}

// layout-03: a back end that adds the gradients of micro-batches in bf16.
class NarrowSums : public StepObserver {
 public:
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (!path.starts_with("micro") || path.starts_with("micro0/") || !name.ends_with(".grad"))
      return;
    for (int64_t i = 0; i < tensor.count(); ++i)
      tensor.f32()[i] = round_to(NumberFormat::bf16, tensor.f32()[i]);
  }
};

LedgerComparison with_narrow_sums(int64_t micro_batches) {
  return with_fault<NarrowSums>(small_case({}, micro_batches));
}

TEST(Case, Layout03SumsOverMicroBatchesInAnotherPrecisionAreNamedSo) {
  const LedgerComparison found = with_narrow_sums(4);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->step, 0);
  EXPECT_THAT(found.first->path, StartsWith("micro1/"));
  EXPECT_THAT(found.first->tensor, HasSubstr(".grad"));
  EXPECT_EQ(cause_of(found, Knobs{}, "same_process").name, "accumulation precision");
}

TEST(Case, Layout03OneMicroBatchHasNoSum) {
  const LedgerComparison found = with_narrow_sums(1);
  EXPECT_TRUE(found.equal) << found.description;
}

// One gradient of one micro-batch is a race of one op, whichever micro-batch it strikes.
class OneGradient : public StepObserver {
 public:
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (path.starts_with("micro2/") && name == "layer1.mlp.up.weight.grad")
      tensor.f32()[0] = std::nextafter(tensor.f32()[0], 1.0F);
  }
};

TEST(Accumulation, IsNotBlamedForARaceInOneOp) {
  const LedgerComparison found = with_fault<OneGradient>(small_case({}, 4));
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->path, "micro2/backward/layer1/mlp_up_weight");
  EXPECT_EQ(cause_of(found, Knobs{}, "same_process").name, "order of sums: gemm");
}

// run-02: the block sums of dQ in another order, in one layer.
class OneAttention : public StepObserver {
 public:
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (path == "backward/layer1/attention" && name == "dq")
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.f32()[i] *= 1.0F + 0x1p-20F;
  }
};

TEST(Case, Run02AttentionBackwardIsNamedWithItsLayerAndEarlierLayersAreDownstream) {
  Case planned = small_case({}, 1);
  planned.model.layers = planned.model.published_layers = 4;
  const LedgerComparison found = with_fault<OneAttention>(planned);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->path, "backward/layer1/attention");
  EXPECT_EQ(found.first->tensor, "dq");
  EXPECT_GT(found.differing, 10);
  const Cause cause = cause_of(found, Knobs{}, "same_process");
  EXPECT_EQ(cause.name, "order of sums: attention");
  EXPECT_THAT(cause.advice, HasSubstr("deterministic=True"));
}

// run-05: one gradient of another value, as of a race, under a clip norm.
class OneNormGradient : public StepObserver {
 public:
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (path.find("backward/") != path.npos && name == "layer1.norm2.weight.grad")
      tensor.f32()[0] *= 64.0F;
  }
};

LedgerComparison with_one_norm_gradient(double clip_norm) {
  Case planned = small_case({}, 1);
  planned.optimizer.clip_norm = clip_norm;
  return with_fault<OneNormGradient>(planned);
}

TEST(Case, Run05OtherWeightsAreDownstreamOfTheClipFactor) {
  const LedgerComparison found = with_one_norm_gradient(0.5);
  ASSERT_TRUE(found.first);
  EXPECT_THAT(found.description,
              StartsWith("step 0, rank 0, backward/layer1/norm2: layer1.norm2.weight.grad "
                         "differs ("));
  // All of 2 layers with 12 parameters each, embedding, positions and last norm; not the root itself.
  EXPECT_EQ(found.through_clip_factor, 2 * 12 + 4 - 1);
  EXPECT_THAT(found.description,
              HasSubstr("27 parameters of them are downstream of the clip factor alone)"));
}

TEST(Case, Run05WithoutClippingNothingIsDownstreamOfTheFactor) {
  const LedgerComparison found = with_one_norm_gradient(0);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.through_clip_factor, 0);
  EXPECT_THAT(found.description, Not(HasSubstr("clip factor")));
}

}  // namespace
}  // namespace dettax
