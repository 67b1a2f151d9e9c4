// Layers with experts, on one rank and with their experts spread over ranks.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout_runs.h"
#include "moe_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

const Layout kLayouts[] = {
    {.dp = 2},          {.dp = 2, .ep = 2},         {.dp = 4, .ep = 2},
    {.dp = 4, .ep = 4}, {.dp = 2, .zero_stage = 1}, {.dp = 2, .zero_stage = 3}};

TEST(ExpertLayouts, TrainTheModelThatOneRankTrains) {
  for (const Case& planned : expert_cases()) {
    const auto expected = whole_steps(planned, deterministic(), 3);
    for (const Layout& layout : kLayouts) {
      for (const Mode& mode : {fast(), deterministic(), invariant()}) {
        // As in layout_test.cpp: sums of a few hundred fp32 terms in another order. A row that went to another expert gives 1e-2.
        EXPECT_EQ(disagreement(expected, whole_steps(on_layout(planned, layout), mode, 3), 2e-5),
                  "")
            << planned.model.name << " " << to_string(layout) << " " << mode.name;
      }
    }
  }
}

TEST(ExpertLayouts, StartFromTheWeightsOfOneRank) {
  for (const Case& planned : expert_cases()) {
    const Log expected = record(planned, deterministic(), 0).front();
    for (const Layout& layout : kLayouts) {
      for (const Log& log : record(on_layout(planned, layout), deterministic(), 0))
        EXPECT_EQ(first_difference(expected, log), "")
            << planned.model.name << " " << to_string(layout);
    }
  }
}

Log state_of(const Log& log) {
  Log kept;
  std::ranges::copy_if(log, std::back_inserter(kept),
                       [](const Entry& e) { return e.path == "state" || e.path == "result"; });
  return kept;
}

TEST(ExpertLayouts, AllRanksReportOneState) {
  for (const Mode& mode : {fast(), deterministic(), invariant()}) {
    const auto logs = record(on_layout(expert_cases()[0], {.dp = 4, .ep = 2}), mode, 2);
    for (const Log& log : logs)
      EXPECT_EQ(first_difference(state_of(logs.front()), state_of(log)), "") << mode.name;
  }
}

// The twin: an expert's weight that is one unit in the last place off is in the state of every rank that counts it.
TEST(ExpertLayouts, TheStateShowsOneUnitInTheLastPlaceOfOneExpert) {
  train_on_ranks(
      on_layout(expert_cases()[0], {.dp = 2, .ep = 2}), deterministic(), [](RankRun& rank) {
        const auto state = [&] {
          std::vector<Fingerprint> found;
          rank.train.fingerprint(
              [&](std::string_view, const Fingerprint& f) { found.push_back(f); });
          return found;
        };
        rank.train.reset(1);
        const auto expected = state();
        EXPECT_EQ(state(), expected);
        for (const TrainStep::Parameter& p : rank.train.parameters()) {
          if (rank.communicator.rank() == 1 && p.name == "layer1.moe.experts.down.weight")
            p.value.f32()[0] = std::nextafter(p.value.f32()[0], 1.0F);
        }
        EXPECT_NE(state(), expected);
      });
}

TEST(ExpertLayouts, TheComparisonSeesOneExpertOffByAPercent) {
  const Case planned = on_layout(expert_cases()[0], {.dp = 2, .ep = 2});
  const auto expected = whole_steps(planned, deterministic(), 2);
  const auto off = whole_steps(planned, deterministic(), 2, [](RankRun& rank) {
    for (const TrainStep::Parameter& p : rank.train.parameters()) {
      if (rank.communicator.rank() != 1 || p.name != "layer1.moe.experts.down.weight") continue;
      for (int64_t i = 0; i < p.value.count(); ++i) p.value.f32()[i] *= 1.01F;
    }
  });
  EXPECT_NE(disagreement(expected, off, 2e-5), "");
}

// --- bits ---------------------------------------------------------------------------------------------------------

TEST(Experts, RepeatTheirBits) {
  for (const Layout& layout : {Layout{}, {.dp = 2}, {.dp = 2, .ep = 2}}) {
    for (const Mode& mode : {deterministic(), invariant()})
      EXPECT_EQ(difference_between_runs(racing_experts(layout), mode, 5), "") << to_string(layout);
  }
}

// The twins: only the order of an expert's rows, in the forward pass, or only what follows from it.
TEST(Experts, AtomicClaimsChangeTheOrderOfRows) {
  Mode mode = deterministic();
  mode.knobs.moe = Order::arrival;
  mode.knobs.dynamic_schedule = true;
  for (const Layout& layout : {Layout{}, {.dp = 2, .ep = 2}})
    EXPECT_EQ(difference_in_the_end(racing_experts(layout), mode),
              "forward/layer0/expert_permute slots");
}

Case eight_samples(Model model) {
  Case planned = small_case(model);
  planned.model.context = 32;
  planned.batch = {8, 8, 32};
  return planned;
}

Case split(Case planned, const Layout& layout, int64_t micro) {
  planned.layout = layout;
  planned.topology.threads_per_rank = layout.dp > 1 ? 1 : 2;
  planned.batch.micro = micro;
  return planned;
}

TEST(Experts, InvariantBitsDependNeitherOnMicroBatchesNorOnRanks) {
  for (const Case& c : expert_cases()) {
    const Case planned = eight_samples(c.model);
    const Log whole = layout_free(record(planned, invariant(), 2));
    for (const Case& other :
         {split(planned, {}, 2), split(planned, {.dp = 2}, 4), split(planned, {.dp = 2}, 1)}) {
      EXPECT_EQ(first_difference(whole, layout_free(record(other, invariant(), 2))), "")
          << planned.model.name << " " << to_string(other.layout);
    }
  }
}

// The gradient norm, and with it a clipped update, is a sum over the ranks that share experts and none that the mode fixes.
TEST(Experts, InvariantGradientsDoNotDependOnWhoHoldsExperts) {
  for (const Case& c : expert_cases()) {
    const Case planned = eight_samples(c.model);
    const WholeStep whole = whole_steps(planned, invariant(), 1).front();
    for (const Case& other :
         {split(planned, {.dp = 2, .ep = 2}, 4), split(planned, {.dp = 4, .ep = 2}, 2)}) {
      const WholeStep spread = whole_steps(other, invariant(), 1).front();
      EXPECT_EQ(whole.losses.front(), spread.losses.front());
      EXPECT_TRUE(whole.gradients == spread.gradients)
          << planned.model.name << " " << to_string(other.layout);
    }
    const WholeStep ordered =
        whole_steps(split(planned, {.dp = 2, .ep = 2}, 4), deterministic(), 1)[0];
    EXPECT_FALSE(whole.gradients == ordered.gradients) << "the comparison sees no roundings";
  }
}

TEST(Experts, OrderedBitsDependOnMicroBatchesAndRanks) {
  const Case planned = eight_samples(small_moe());
  const Log whole = state_of(record(planned, deterministic(), 1).front());
  for (const Case& other : {split(planned, {}, 2), split(planned, {.dp = 2, .ep = 2}, 2)})
    EXPECT_NE(first_difference(whole, state_of(record(other, deterministic(), 1).front())), "");
}

// --- learning -----------------------------------------------------------------------------------------------------

TEST(Experts, TheLossFalls) {
  for (const Case& base : expert_cases()) {
    Case planned = on_layout(base, {.dp = 2, .ep = 2});
    planned.batch = {4, 8, 24};
    planned.optimizer = {};
    planned.optimizer.learning_rate = 0.02;
    train_on_ranks(planned, fast(), [&](RankRun& rank) {
      rank.train.reset(planned.seed);
      const float first = rank.train.step().loss;
      for (int i = 0; i < 30; ++i) rank.train.step();
      EXPECT_LT(rank.train.step().loss, first - 0.3F) << planned.model.name;
    });
  }
}

TEST(Experts, RoundedPrecisionsTrainThem) {
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp8_cs}) {
    Case planned = on_layout(expert_cases()[1], {.dp = 2, .ep = 2});
    const auto expected = whole_steps(planned, deterministic(), 1);
    planned.precision = precision;
    const auto found = whole_steps(planned, deterministic(), 1);
    // Initial losses agree to the roundings of the logits.
    EXPECT_NEAR(static_cast<double>(found[0].losses[0] / expected[0].losses[0]), 1.0, 0.02);
    EXPECT_TRUE(std::isfinite(found[0].norms[0]));
    EXPECT_EQ(difference_between_runs(planned, deterministic(), 2), "");
  }
}

}  // namespace
}  // namespace dettax
