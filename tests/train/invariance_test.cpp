// The invariant mode over threads, micro-batches and data-parallel ranks; and that the ordered mode, which does not promise it,
// would be caught.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "small_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

Case eight_samples(Model model) {
  model.context = 32;
  Case planned = small_case(model);
  planned.batch = {8, 8, 32};
  planned.topology.threads_per_rank = 2;
  return planned;
}

std::vector<Case> cases() {
  Model dropping = small_gpt();
  dropping.dropout = 0.1;
  return {eight_samples(small_gpt()), eight_samples(small_llama()), eight_samples(dropping)};
}

Case with_threads(Case planned, int threads) {
  planned.topology.threads_per_rank = threads;
  return planned;
}

Case with_micro_batch(Case planned, int64_t micro) {
  planned.batch.micro = micro;
  return planned;
}

Case with_ranks(Case planned, int ranks) {
  planned.layout.dp = ranks;
  planned.topology.threads_per_rank = 1;
  planned.batch.micro = planned.batch.global / ranks;
  return planned;
}

TEST(InvariantMode, GivesTheSameBitsOnOneTwoAndThreeThreads) {
  for (const Case& planned : cases()) {
    const auto one = record(with_threads(planned, 1), invariant(), 2);
    for (const int threads : {2, 3}) {
      EXPECT_EQ(first_difference(one, record(with_threads(planned, threads), invariant(), 2)), "")
          << planned.model.name << ", " << threads << " threads";
    }
  }
}

TEST(InvariantMode, GivesTheSameBitsForEveryPowerOfTwoOfMicroBatches) {
  for (const Case& planned : cases()) {
    const Log whole = layout_free(record(planned, invariant(), 2));
    for (const int64_t micro : {4, 2, 1}) {
      EXPECT_EQ(first_difference(
                    whole, layout_free(record(with_micro_batch(planned, micro), invariant(), 2))),
                "")
          << planned.model.name << ", micro-batches of " << micro;
    }
  }
}

TEST(InvariantMode, GivesTheSameBitsOnOneTwoAndFourRanks) {
  for (const Case& planned : cases()) {
    const Log whole = layout_free(record(planned, invariant(), 2));
    for (const int ranks : {2, 4}) {
      EXPECT_EQ(
          first_difference(whole, layout_free(record(with_ranks(planned, ranks), invariant(), 2))),
          "")
          << planned.model.name << ", " << ranks << " ranks";
    }
    Case both = with_ranks(planned, 2);
    both.batch.micro = 2;
    EXPECT_EQ(first_difference(whole, layout_free(record(both, invariant(), 2))), "")
        << planned.model.name;
  }
}

// Other micro-batches and data-parallel ranks beside axes that stay as they are. Sharding the optimizer changes no bit either.
TEST(InvariantMode, HoldsOnEveryLayoutOfTheModel) {
  for (const Case& planned : cases()) {
    for (const Layout& layout :
         {Layout{.tp = 2}, Layout{.tp = 2, .sequence_parallel = true}, Layout{.cp = 2}}) {
      Case whole = with_micro_batch(planned, 8);
      whole.layout = layout;
      whole.topology.threads_per_rank = 1;
      const Log expected = layout_free(record(whole, invariant(), 2));
      for (const int zero_stage : {0, 1, 3}) {
        for (const int ranks : {1, 2}) {
          Case other = whole;
          other.layout.dp = ranks;
          other.layout.zero_stage = zero_stage;
          other.batch.micro = 2;
          EXPECT_EQ(first_difference(expected, layout_free(record(other, invariant(), 2))), "")
              << planned.model.name << ", " << to_string(other.layout);
        }
      }
    }
  }
}

TEST(InvariantMode, HoldsWithSeparateLoss) {
  Mode mode = invariant();
  mode.knobs.fused_loss = false;
  const Case planned = eight_samples(small_gpt());
  const Log whole = layout_free(record(planned, mode, 2));
  EXPECT_EQ(first_difference(whole, layout_free(record(with_micro_batch(planned, 2), mode, 2))),
            "");
  EXPECT_EQ(first_difference(whole, layout_free(record(with_threads(planned, 3), mode, 2))), "");
}

// Not less of a check than the whole log: the reduced gradients, the results and the state are there.
TEST(LayoutFreeLog, HoldsGradientsResultsAndState) {
  const Log log = layout_free(record(small_case(small_gpt()), invariant(), 1));
  const auto holds = [&](const std::string& path, const std::string& tensor) {
    return std::ranges::any_of(
        log, [&](const Entry& e) { return e.path == path && e.tensor == tensor; });
  };
  EXPECT_TRUE(holds("reduce/gradients", "layer1.mlp.up.weight.grad"));
  EXPECT_TRUE(holds("reduce/loss", "loss"));
  EXPECT_TRUE(holds("result", "gradient_norm"));
  EXPECT_TRUE(holds("state", "layer0.norm1.weight.second_moment"));
}

// The twins.
TEST(DeterministicMode, DependsOnThreadsMicroBatchesAndRanks) {
  const Case planned = eight_samples(small_gpt());
  const Log whole = layout_free(record(planned, deterministic(), 2));
  EXPECT_NE(
      first_difference(whole, layout_free(record(with_threads(planned, 3), deterministic(), 2))),
      "");
  EXPECT_NE(first_difference(whole,
                             layout_free(record(with_micro_batch(planned, 2), deterministic(), 2))),
            "");
  EXPECT_NE(
      first_difference(whole, layout_free(record(with_ranks(planned, 2), deterministic(), 2))), "");
}

TEST(InitialWeights, DependOnTheSeedAlone) {
  const Case planned = eight_samples(small_gpt());
  const Log expected = record(with_threads(planned, 1), fast(), 0).front();
  EXPECT_EQ(first_difference(expected, record(with_threads(planned, 3), fast(), 0).front()), "");
  for (const Log& log : record(with_ranks(planned, 4), fast(), 0))
    EXPECT_EQ(first_difference(expected, log), "");
  Case other = planned;
  other.seed = 2;
  EXPECT_EQ(first_difference(expected, record(other, fast(), 0).front()), "state embedding.weight");
}

}  // namespace
}  // namespace dettax
