// What sharding and overlap are for: less memory a rank, and communication while the backward pass goes on.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/train/storage_plan.h"
#include "layout_runs.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

int64_t bytes_of(const Layout& layout) {
  Case planned = on_layout(small_case(small_gpt()), layout);
  planned.batch = {1, 4, 12};
  int64_t bytes = 0;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    if (rank.communicator.rank() == 0) bytes = rank.train.allocated_bytes();
  });
  return bytes;
}

TEST(Sharding, LeavesARankItsPartOfTheState) {
  const ModelLayout layout = make_model_layout(small_gpt(), whole_model(small_gpt()));
  const int64_t weights = 4 * plan_storage(layout, {}).weights;
  const int64_t whole = bytes_of({.dp = 4});
  const double saved = static_cast<double>(whole - bytes_of({.dp = 4, .zero_stage = 1}));
  EXPECT_NEAR(saved / static_cast<double>(weights), 2 * 0.75, 0.01);  // of both moments
  // Both layers of this model have a place for their gathered weights: nothing but moments is saved.
  EXPECT_LT(bytes_of({.dp = 4, .zero_stage = 3}), whole);
  EXPECT_GT(bytes_of({.dp = 4, .zero_stage = 3}), bytes_of({.dp = 4, .zero_stage = 1}));
}

class Paths : public StepObserver {
 public:
  void on_op(std::string_view path) override { all.emplace_back(path); }
  void on_tensor(std::string_view, std::string_view, const Tensor&, uint64_t) override {}
  // Position of the first op of this path, and how many there are.
  std::ptrdiff_t first(const std::string& path) const {
    return std::ranges::find(all, path) - all.begin();
  }
  std::ptrdiff_t count(const std::string& path) const { return std::ranges::count(all, path); }

  std::vector<std::string> all;
};

Paths paths_of_a_step(const Layout& layout, bool overlap, int64_t micro) {
  Case planned = on_layout(small_case(small_gpt()), layout);
  planned.model.layers = planned.model.published_layers = 4;
  planned.batch = {micro, 4, 12};
  Mode mode = deterministic();
  mode.knobs.overlap = overlap;
  Paths paths;
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    Paths own;
    rank.train.reset(1);
    rank.train.observe(&own);
    rank.train.step();
    rank.train.observe(nullptr);
    if (rank.communicator.rank() == 0) paths = own;
  });
  return paths;
}

TEST(Overlap, SendsTheGradientsOfALayerWhileTheBackwardPassGoesOn) {
  const Layout layout{.dp = 2, .zero_stage = 3};
  const Paths behind = paths_of_a_step(layout, true, 2);
  EXPECT_LT(behind.first("reduce/bucket"), behind.first("backward/layer3/norm1"));
  EXPECT_LT(behind.first("reduce/bucket"), behind.first("backward/layer0/norm1"));
  const Paths after = paths_of_a_step(layout, false, 2);
  EXPECT_GT(after.first("reduce/bucket"), after.first("backward/embedding"));
}

TEST(Overlap, SendsNothingBeforeTheLastMicroBatch) {
  const Paths behind = paths_of_a_step({.dp = 2, .zero_stage = 3}, true, 1);
  EXPECT_GT(behind.first("reduce/bucket"), behind.first("micro1/forward/embedding"));
  EXPECT_GT(behind.first("reduce/bucket"), behind.first("micro0/backward/embedding"));
  EXPECT_LT(behind.first("reduce/bucket"), behind.first("micro1/backward/embedding"));
}

// A stage does not wait for the others: its buckets leave as its own last micro-batch goes back.
TEST(Overlap, SendsTheGradientsOfAStageBehindItsLastMicroBatch) {
  const Paths paths = paths_of_a_step({.dp = 2, .pp = 2, .zero_stage = 3}, true, 1);
  EXPECT_GT(paths.first("reduce/bucket"), paths.first("micro0/backward/layer0/norm1"));
  EXPECT_GT(paths.first("reduce/bucket"), paths.first("micro1/backward/layer1/norm1"));
  EXPECT_LT(paths.first("reduce/bucket"), paths.first("micro1/backward/layer0/norm1"));
}

// Forward each layer, backward all but the last two, which are still there.
TEST(ShardedWeights, AreGatheredForEveryPass) {
  for (const bool overlap : {false, true}) {
    const Paths paths = paths_of_a_step({.dp = 2, .zero_stage = 3}, overlap, 2);
    std::ptrdiff_t forward = 0;
    std::ptrdiff_t backward = 0;
    for (int layer = 0; layer < 4; ++layer) {
      const std::string place = "/layer" + std::to_string(layer) + "/weight_gather";
      forward += paths.count("forward" + place);
      backward += paths.count("backward" + place);
    }
    EXPECT_EQ(forward, 4);
    EXPECT_EQ(backward, 2);
    EXPECT_EQ(paths.count("forward/weight_gather"), 2);  // both ends
  }
}

// cases/layout.md, layout-02.
TEST(Case, Layout02aInitialWeightsAreThoseOfOneRankOnEveryLayout) {
  Case planned = small_case(small_gpt());
  planned.batch = {2, 4, 12};
  const Log one = record(planned, deterministic(), 0).front();
  EXPECT_EQ(
      first_difference(one, record(on_layout(planned, {.dp = 2}), deterministic(), 0).front()), "");
  EXPECT_EQ(
      first_difference(one, record(on_layout(planned, {.tp = 2}), deterministic(), 0).front()), "");
}

TEST(Case, Layout02bRanksOfAnotherSeedDifferBeforeTheFirstForwardPassThoughTheLossFalls) {
  Case planned = on_layout(small_case(small_gpt()), {.dp = 2});
  planned.batch = {2, 4, 12};
  planned.optimizer.learning_rate = 0.01;
  std::vector<std::vector<Fingerprint>> states(2);
  std::vector<float> losses;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    const auto index = static_cast<size_t>(rank.communicator.rank());
    rank.train.reset(1 + index);
    rank.train.fingerprint([&](std::string_view name, const Fingerprint& value) {
      if (name == "embedding.weight") states[index].push_back(value);
    });
    for (int i = 0; i < 20; ++i) {
      const float loss = rank.train.step().loss;
      if (index == 0) losses.push_back(loss);
    }
  });
  EXPECT_FALSE(states[0].front() == states[1].front());
  EXPECT_LT(losses.back(), 0.95F * losses.front());
}

}  // namespace
}  // namespace dettax
