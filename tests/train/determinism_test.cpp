// What each mode promises, and that each promise could be seen to be broken.

#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "small_cases.h"
#include "tests/small_models.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

// Large enough for every fast variant to have something to reorder: 1536 tokens, several key blocks, two threads.
Case racing_case() {
  const Model model = gpt_model({.name = "racing",
                                 .vocabulary = 500,
                                 .context = 192,
                                 .layers = 2,
                                 .width = 128,
                                 .heads = 4,
                                 .ffn_width = 256});
  Case planned = small_case(model);
  planned.batch = {8, 8, 192};
  return planned;
}

// Large matrices, whose squares are summed in many chunks.
Case racing_matrices() {
  Case planned = racing_case();
  planned.model.layers = planned.model.published_layers = 1;
  planned.model.width = 256;
  planned.model.head_width = 64;
  planned.model.ffn_width = 1536;
  planned.batch = {2, 2, 64};
  return planned;
}

Case racing_ranks() {
  Case planned = racing_case();
  planned.layout.dp = 4;
  planned.topology.threads_per_rank = 1;
  planned.batch = {1, 4, 64};
  return planned;
}

TEST(DeterministicMode, GivesTheSameBitsInEveryRun) {
  EXPECT_EQ(difference_between_runs(racing_case(), deterministic(), 20), "");
  EXPECT_EQ(difference_between_runs(racing_ranks(), deterministic(), 10), "");
}

TEST(InvariantMode, GivesTheSameBitsInEveryRun) {
  EXPECT_EQ(difference_between_runs(racing_case(), invariant(), 20), "");
  EXPECT_EQ(difference_between_runs(racing_ranks(), invariant(), 10), "");
}

TEST(FastMode, DiffersFromItself) { EXPECT_NE(difference_in_the_end(racing_case(), fast()), ""); }

struct FastKnob {
  std::string knob, value;
  std::string place;  // regular expression for path and tensor of the first difference
  Case (*planned)() = racing_case;
};
std::ostream& operator<<(std::ostream& out, const FastKnob& knob) { return out << knob.knob; }

class OneKnobFast : public testing::TestWithParam<FastKnob> {};

INSTANTIATE_TEST_SUITE_P(
    Knobs, OneKnobFast,
    testing::Values(
        FastKnob{"gemm", "arrival",
                 "forward/head_loss .*weight.grad|backward/.*_weight .*weight.grad"},
        FastKnob{"attention", "arrival", "backward/layer./attention dq"},
        FastKnob{"embedding", "atomic", "backward/embedding embedding.weight.grad"},
        FastKnob{"norm", "arrival", "backward/.*norm.? .*norm.*.grad"},
        FastKnob{"loss", "arrival", "forward/loss_sum sum"},
        FastKnob{"grad_norm", "arrival", "optimizer/gradient_norm squares", racing_matrices},
        FastKnob{"collectives", "arrival", "reduce/(loss loss|gradients .*.grad)", racing_ranks}),
    [](const auto& instance) { return instance.param.knob; });

TEST_P(OneKnobFast, IsSeenAtTheOpItBelongsTo) {
  const FastKnob& p = GetParam();
  Mode mode = deterministic();
  set_knob(mode.knobs, p.knob, p.value);
  const std::string found = difference_in_the_end(p.planned(), mode);
  EXPECT_TRUE(std::regex_match(found, std::regex(p.place)))
      << "first difference: " << (found.empty() ? "none" : found);
}

// Chunks handed out on demand give partial sums to whichever thread comes: somewhere in the backward pass, or in the sums.
TEST(OneKnobFast, DynamicScheduleIsSeen) {
  Mode mode = deterministic();
  set_knob(mode.knobs, "schedule", "dynamic");
  EXPECT_NE(difference_in_the_end(racing_case(), mode), "");
}

// Knobs that choose an algorithm and not an order: the same bits in every run, whichever way they stand.
TEST(DeterministicMode, HoldsWithFillGenericIndexOpsAndSeparateLoss) {
  Mode mode = deterministic();
  mode.knobs.memory_fill = true;
  mode.knobs.generic_index_ops = true;
  mode.knobs.fused_loss = false;
  EXPECT_EQ(difference_between_runs(racing_case(), mode, 10), "");
}

TEST(MemoryFill, ChangesNoBit) {
  Mode filled = deterministic();
  filled.knobs.memory_fill = true;
  for (const Model& model : {small_gpt(), small_llama()}) {
    EXPECT_EQ(first_difference(record(small_case(model), deterministic(), 2),
                               record(small_case(model), filled, 2)),
              "");
  }
}

// cases/run.md, run-01.
TEST(Case, Run01EmbeddingGradientDiffersInTheRowsOfRepeatedTokensOnly) {
  Case planned = racing_case();
  planned.model.vocabulary = 4;
  planned.model.tied_head = false;
  planned.batch = {6, 6, 192};
  Mode mode = deterministic();
  EXPECT_EQ(difference_between_runs(planned, mode, 5), "");
  set_knob(mode.knobs, "embedding", "atomic");
  EXPECT_EQ(difference_in_the_end(planned, mode), "backward/embedding embedding.weight.grad");
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    rank.train.reset(1);
    rank.train.step();
    const auto& embedding = rank.train.parameters().front();
    ASSERT_EQ(embedding.name, "embedding.weight");
    for (int64_t i = 4 * planned.model.width; i < embedding.gradient.count(); ++i) {
      ASSERT_EQ(embedding.gradient.f32()[i], 0.0F);
    }
  });
}

// Makes one gradient another, as a race in one op would.
class Disturbance : public StepObserver {
 public:
  explicit Disturbance(std::string tensor) : tensor_(std::move(tensor)) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (name == tensor_ && path.starts_with("backward/")) tensor.f32()[0] *= 64.0F;
  }

 private:
  std::string tensor_;
};

// Parameters whose weights or moments differ after step 0 when one gradient does.
std::set<std::string> changed_by_one_gradient(double clip_norm) {
  Case planned = small_case(small_gpt());
  planned.model.layers = planned.model.published_layers = 3;
  planned.optimizer.clip_norm = clip_norm;
  std::vector<std::vector<std::pair<std::string, Fingerprint>>> states(2);
  std::set<std::string> changed;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    Disturbance disturbance("layer2.norm2.weight.grad");
    for (size_t i = 0; i < 2; ++i) {
      rank.train.reset(1);
      rank.train.observe(i == 0 ? nullptr : &disturbance);
      EXPECT_GT(rank.train.step().gradient_norm, 0.5F);
      rank.train.fingerprint(
          [&](std::string_view name, const Fingerprint& f) { states[i].emplace_back(name, f); });
    }
    rank.train.observe(nullptr);
  });
  for (size_t i = 0; i < states[0].size(); ++i) {
    std::string name = states[0][i].first;
    for (const std::string suffix : {".first_moment", ".second_moment"}) {
      if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
    }
    if (states[0][i] != states[1][i]) changed.insert(name);
  }
  return changed;
}

// cases/run.md, run-05.
TEST(Case, Run05ClippingSmearsOneGradientOverAllWeights) {
  EXPECT_EQ(changed_by_one_gradient(0), std::set<std::string>{"layer2.norm2.weight"});
  EXPECT_GT(changed_by_one_gradient(0.5).size(), 35U);  // of 3 x 12 + 4
}

}  // namespace
}  // namespace dettax
