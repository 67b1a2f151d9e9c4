#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/train/token_source.h"
#include "reference_model.h"
#include "small_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

reference::Values weights_of(const TrainStep& train) {
  reference::Values weights;
  for (const auto& p : train.parameters()) {
    weights[p.name].assign(p.value.f32(), p.value.f32() + p.value.count());
  }
  return weights;
}

std::vector<std::vector<int32_t>> batch_of(const Case& planned, uint64_t seed, int64_t step) {
  const auto source = make_token_source(planned);
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t s = 0; s < planned.batch.global; ++s) {
    sequences.emplace_back(static_cast<size_t>(planned.batch.sequence_length + 1));
    source->sample(seed, step, s, sequences.back());
  }
  return sequences;
}

// The worst difference of a tensor, relative to its largest element.
double worst_difference(const std::vector<double>& expected, const Tensor& found) {
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(expected[i] - static_cast<double>(found.f32()[i])));
  }
  return worst / largest;
}

// Steps 0 and 1 of every rank: the second has left the initial weights, whose norms and biases hide errors.
void expect_agreement(const Case& planned, const Mode& mode) {
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    for (int64_t step = 0; step < 2; ++step) {
      const auto expected = reference::loss_and_gradients(
          planned, weights_of(rank.train), batch_of(planned, planned.seed, step), planned.seed,
          static_cast<uint64_t>(step));
      const StepResult result = rank.train.step();
      EXPECT_NEAR(static_cast<double>(result.loss), expected.loss, 2e-6 * expected.loss);
      double squares = 0;
      for (const auto& p : rank.train.parameters()) {
        const auto& gradient = expected.gradients.at(p.name);
        // fp32 sums of a few hundred products; a wrong index or factor gives 1e-2 and more.
        EXPECT_LT(worst_difference(gradient, p.gradient), 2e-5) << p.name << " in step " << step;
        for (const double g : gradient) squares += g * g;
      }
      EXPECT_NEAR(static_cast<double>(result.gradient_norm), std::sqrt(squares),
                  1e-5 * std::sqrt(squares));
    }
  });
}

class AgreesWithTheReference : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, AgreesWithTheReference,
                         testing::Values(fast(), deterministic(), invariant()),
                         [](const auto& instance) { return instance.param.name; });

Case quick_learning(Case planned) {
  planned.optimizer.learning_rate = 0.02;
  return planned;
}

TEST_P(AgreesWithTheReference, GptWithTiedHeadAndBiases) {
  expect_agreement(quick_learning(small_case(small_gpt())), GetParam());
}

TEST_P(AgreesWithTheReference, LlamaWithGroupedQueries) {
  expect_agreement(quick_learning(small_case(small_llama())), GetParam());
}

TEST_P(AgreesWithTheReference, SeparateHeadAndLossAndGenericIndexOps) {
  Mode mode = GetParam();
  mode.knobs.fused_loss = false;
  mode.knobs.generic_index_ops = true;
  mode.knobs.memory_fill = true;
  expect_agreement(quick_learning(small_case(small_gpt())), mode);
  expect_agreement(quick_learning(small_case(small_llama())), mode);
}

TEST_P(AgreesWithTheReference, FusedLossWithMemoryFill) {
  Mode mode = GetParam();
  mode.knobs.memory_fill = true;
  expect_agreement(quick_learning(small_case(small_llama())), mode);
}

TEST_P(AgreesWithTheReference, SeveralMicroBatches) {
  Case planned = quick_learning(small_case(small_gpt()));
  planned.batch = {2, 6, 12};
  expect_agreement(planned, GetParam());
  planned = quick_learning(small_case(small_llama()));
  planned.batch = {1, 4, 12};
  expect_agreement(planned, GetParam());
}

TEST_P(AgreesWithTheReference, Dropout) {
  Case planned = quick_learning(small_case(small_gpt()));
  planned.model.dropout = 0.2;
  planned.batch = {2, 4, 12};
  expect_agreement(planned, GetParam());
}

std::vector<Model> models_with_experts() {
  Model balanced = small_moe();
  balanced.moe->routing = Routing::balanced;
  balanced.moe->normalised = false;
  Model shared = small_moe();  // a dense layer, then one with a shared expert
  shared.moe->shared_experts = 2;
  shared.moe->first_layer = 1;
  shared.moe->top_k = 1;
  Model dropping = small_moe();
  dropping.moe->capacity_factor = 0.75;
  dropping.moe->shared_experts = 1;
  return {small_moe(), balanced, shared, dropping};
}

TEST_P(AgreesWithTheReference, Experts) {
  for (const Model& model : models_with_experts()) {
    Case planned = quick_learning(small_case(model));
    planned.batch = {2, 4, 12};
    expect_agreement(planned, GetParam());
  }
}

TEST_P(AgreesWithTheReference, ExpertsWithGenericIndexOps) {
  Mode mode = GetParam();
  mode.knobs.generic_index_ops = true;
  mode.knobs.memory_fill = true;
  for (const Model& model : models_with_experts())
    expect_agreement(quick_learning(small_case(model)), mode);
}

TEST_P(AgreesWithTheReference, DataParallelRanks) {
  Case planned = quick_learning(small_case(small_gpt()));
  planned.layout.dp = 2;
  planned.topology.threads_per_rank = 1;
  planned.batch = {1, 4, 12};
  planned.model.dropout = 0.1;
  expect_agreement(planned, GetParam());
}

// The twin of the above: the comparison sees one wrong mask.
TEST(TheReference, NoticesAnotherSeed) {
  Case planned = small_case(small_gpt());
  planned.model.dropout = 0.2;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    const auto expected = reference::loss_and_gradients(
        planned, weights_of(rank.train), batch_of(planned, planned.seed, 0), planned.seed + 1, 0);
    rank.train.step();
    for (const auto& p : rank.train.parameters()) {
      if (p.name == "layer0.mlp.down.weight") {
        EXPECT_GT(worst_difference(expected.gradients.at(p.name), p.gradient), 1e-2);
      }
    }
  });
}

}  // namespace
}  // namespace dettax
