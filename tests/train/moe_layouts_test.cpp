// Layers with experts together with the other ways to lay a model out over ranks.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "layout_runs.h"
#include "moe_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

const auto kGpipe = PipelineSchedule::gpipe;
const auto kInterleaved = PipelineSchedule::interleaved;
const auto kSelective = Recompute::selective;
const auto kFull = Recompute::full;

Case of_four_layers(Case planned) {
  planned.model.layers = planned.model.published_layers = 4;
  return planned;
}

const std::vector<Layout> kPipelines = {
    {.pp = 2},
    {.pp = 2, .schedule = kGpipe},
    {.pp = 2, .vp = 2, .schedule = kInterleaved},
    {.dp = 2, .pp = 2},
    {.dp = 2, .pp = 2, .ep = 2},
    {.dp = 2, .pp = 2, .ep = 2, .vp = 2, .schedule = kInterleaved},
};
const std::vector<Layout> kShardings = {
    {.dp = 2, .ep = 2, .zero_stage = 1},          {.dp = 4, .ep = 2, .zero_stage = 1},
    {.dp = 2, .ep = 2, .zero_stage = 3},          {.dp = 4, .ep = 2, .zero_stage = 3},
    {.dp = 2, .pp = 2, .ep = 2, .zero_stage = 1}, {.dp = 4, .pp = 2, .ep = 2, .zero_stage = 3},
};
const std::vector<Layout> kRecomputations = {
    {.recompute = kSelective},
    {.recompute = kFull},
    {.dp = 2, .ep = 2, .recompute = kSelective},
    {.dp = 2, .ep = 2, .recompute = kFull},
    {.dp = 2, .pp = 2, .ep = 2, .recompute = kSelective},
    {.dp = 2, .pp = 2, .ep = 2, .zero_stage = 3, .recompute = kFull},
};

const std::vector<Layout> kContexts = {
    {.cp = 2},
    {.dp = 2, .cp = 2, .ep = 2},
    {.dp = 2, .cp = 2, .ep = 2, .zero_stage = 1},
    {.dp = 2, .pp = 2, .cp = 2, .ep = 2, .zero_stage = 3, .recompute = kFull},
};
const std::vector<Layout> kTensors = {
    {.tp = 2},
    {.tp = 2, .sequence_parallel = true},
    {.dp = 2, .tp = 2, .ep = 2},
    {.dp = 2, .tp = 2, .ep = 2, .sequence_parallel = true, .zero_stage = 1},
    {.dp = 2, .tp = 2, .pp = 2, .ep = 2, .sequence_parallel = true, .recompute = kFull},
    {.dp = 2, .tp = 2, .ep = 2, .zero_stage = 3, .recompute = kSelective},
    {.tp = 2, .cp = 2, .sequence_parallel = true},
};

std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  for (const auto* some : {&kPipelines, &kShardings, &kRecomputations, &kContexts, &kTensors})
    all.insert(all.end(), some->begin(), some->end());
  return all;
}

// Each layout with each model, those of eight ranks with one, in one mode after the other.
void expect_the_steps_of_one_rank(const std::vector<Layout>& layouts) {
  const Mode modes[] = {fast(), deterministic(), invariant()};
  size_t turn = 0;
  for (const Case& small : expert_cases()) {
    const Case planned = of_four_layers(small);
    const auto expected = whole_steps(planned, deterministic(), 2);
    for (const Layout& layout : layouts) {
      if (layout.ranks() > 4 && planned.model.name != "shared") continue;
      const Mode& mode = modes[turn++ % 3];
      // Sums of a few hundred fp32 terms in another order. A row that went to another expert gives 1e-2.
      EXPECT_EQ(disagreement(expected, whole_steps(on_layout(planned, layout), mode, 2), 2e-5), "")
          << planned.model.name << " " << to_string(layout) << " " << mode.name;
    }
    ++turn;
  }
}

TEST(ExpertPipelines, TrainTheModelThatOneRankTrains) { expect_the_steps_of_one_rank(kPipelines); }
TEST(ExpertShards, TrainTheModelThatOneRankTrains) { expect_the_steps_of_one_rank(kShardings); }
TEST(ExpertRecomputation, TrainsTheModelThatOneRankTrains) {
  expect_the_steps_of_one_rank(kRecomputations);
}

TEST(ExpertContexts, TrainTheModelThatOneRankTrains) { expect_the_steps_of_one_rank(kContexts); }
TEST(ExpertTensors, TrainTheModelThatOneRankTrains) { expect_the_steps_of_one_rank(kTensors); }

TEST(ExpertLayouts, AllBeginWithTheStateOfOneRank) {
  const Case planned = of_four_layers(expert_cases()[1]);
  const Log expected = record(planned, deterministic(), 0).front();
  for (const Layout& layout : all_layouts()) {
    for (const Log& log : record(on_layout(planned, layout), deterministic(), 0))
      EXPECT_EQ(first_difference(expected, log), "") << to_string(layout);
  }
}

Log state_of(const Log& log) {
  Log kept;
  std::ranges::copy_if(log, std::back_inserter(kept),
                       [](const Entry& e) { return e.path == "state" || e.path == "result"; });
  return kept;
}

TEST(ExpertLayouts, AllRanksReportOneStateBehindASteps) {
  for (const Layout& layout : all_layouts()) {
    const auto logs =
        record(on_layout(of_four_layers(expert_cases()[1]), layout), deterministic(), 2);
    for (const Log& log : logs)
      EXPECT_EQ(first_difference(state_of(logs.front()), state_of(log)), "") << to_string(layout);
  }
}

// --- bits ---------------------------------------------------------------------------------------------------------

// The losses of a token go through the layers in one order, on whatever stages these are.
TEST(ExpertPipelines, GiveTheBitsOfOneStage) {
  for (const size_t i : {1U, 3U}) {
    Case planned = of_four_layers(expert_cases()[i]);
    planned.optimizer.clip_norm = 0;  // the norm is summed stage by stage
    for (const Layout& layout : kPipelines) {
      Layout one;
      one.dp = layout.dp;
      one.ep = layout.ep;
      const Mode mode = i == 1 ? deterministic() : invariant();
      const auto expected = whole_steps(on_layout(planned, one), mode, 2);
      const auto found = whole_steps(on_layout(planned, layout), mode, 2);
      for (size_t step = 0; step < 2; ++step) {
        EXPECT_EQ(found[step].losses.front(), expected[step].losses.front());
        EXPECT_TRUE(found[step].gradients == expected[step].gradients)
            << planned.model.name << " " << to_string(layout) << " " << mode.name;
      }
    }
  }
}

// Forgets what other ranks told this one.
class Forgetting : public StepObserver {
 public:
  Forgetting(std::string path, std::string tensor)
      : path_(std::move(path)), tensor_(std::move(tensor)) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    if (path.ends_with(path_) && name == tensor_)
      std::memset(tensor.data, 0, static_cast<size_t>(tensor.bytes()));
  }

 private:
  const std::string path_, tensor_;
};

// How one step differs from that of one rank if the last rank forgets something.
std::string forgetting(const Case& small, const Layout& layout, const std::string& path,
                       const std::string& tensor) {
  const Case planned = of_four_layers(small);
  Forgetting observer(path, tensor);
  const auto found =
      whole_steps(on_layout(planned, layout), deterministic(), 1, [&](RankRun& rank) {
        if (rank.communicator.rank() + 1 == layout.ranks()) rank.train.observe(&observer);
      });
  return disagreement(whole_steps(planned, deterministic(), 1), found, 2e-5);
}

TEST(ExpertPipelines, TheComparisonSeesThatLossesOfAStageAreMissing) {
  const std::string seen =
      forgetting(expert_cases()[0], {.pp = 2}, "forward/layer2/pipeline_receive", "losses");
  EXPECT_EQ(seen.substr(0, 13), "step 0: loss ");
}

// The second piece of a sequence would be given to experts that are full.
TEST(ExpertContexts, TheComparisonSeesChoicesOfOtherRanksForgotten) {
  EXPECT_EQ(forgetting(expert_cases()[3], {.cp = 2}, "expert_counts", "none"), "");
  EXPECT_NE(forgetting(expert_cases()[3], {.cp = 2}, "expert_counts", "before"), "");
}

TEST(ExpertTensors, TheComparisonSeesRanksThatRouteApart) {
  EXPECT_NE(forgetting(expert_cases()[1], {.tp = 2}, "layer3/router_agreement", "logits"), "");
}

std::vector<Log> without(std::vector<Log> logs, const std::string& part) {
  for (Log& log : logs)
    std::erase_if(log, [&](const Entry& e) { return e.path.find(part) != std::string::npos; });
  return logs;
}

TEST(ExpertRecomputation, GivesTheSameBitsAsKeeping) {
  const Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::fp8_ds};
  size_t turn = 0;
  for (const size_t i : {1U, 3U}) {
    for (Layout layout : kRecomputations) {
      Case planned = of_four_layers(expert_cases()[i]);
      planned.precision = precisions[turn++ % 3];
      const auto again = record(on_layout(planned, layout), deterministic(), 2);
      EXPECT_TRUE(std::ranges::any_of(again.front(), [](const Entry& e) {
        return e.path.find("recompute/layer1/expert_swiglu") != std::string::npos;
      }));
      layout.recompute = Recompute::none;
      const auto kept = record(on_layout(planned, layout), deterministic(), 2);
      EXPECT_EQ(first_difference(without(kept, "weight_gather"),
                                 without(without(again, "recompute/"), "weight_gather")),
                "")
          << planned.model.name << " " << to_string(layout);
    }
    ++turn;
  }
}

TEST(ExpertRecomputation, KeepsLessTheMoreItComputesAgain) {
  std::vector<int64_t> bytes;
  for (const Recompute recompute : {Recompute::none, kSelective, kFull}) {
    Case planned = expert_cases()[1];
    planned.model.layers = 8;
    planned.layout.recompute = recompute;
    train_on_ranks(planned, deterministic(),
                   [&](RankRun& rank) { bytes.push_back(rank.train.allocated_bytes()); });
  }
  EXPECT_LT(bytes[1], bytes[0]);
  EXPECT_LT(bytes[2], bytes[1]);
}

const std::vector<Layout> kRacing = {{.pp = 2},
                                     {.dp = 2, .pp = 2, .ep = 2},
                                     {.dp = 2, .ep = 2, .zero_stage = 1},
                                     {.dp = 2, .ep = 2, .zero_stage = 3, .recompute = kFull},
                                     {.cp = 2},
                                     {.dp = 2, .tp = 2, .ep = 2, .sequence_parallel = true}};

TEST(ExpertLayouts, RepeatTheirBits) {
  for (const Layout& layout : kRacing) {
    for (const Mode& mode : {deterministic(), invariant()})
      EXPECT_EQ(difference_between_runs(racing_experts(layout), mode, 3), "") << to_string(layout);
  }
}

// The twin: rows claimed in order of arrival.
TEST(ExpertLayouts, AtomicClaimsChangeTheOrderOfRows) {
  Mode mode = deterministic();
  mode.knobs.moe = Order::arrival;
  mode.knobs.dynamic_schedule = true;
  for (const Layout& layout : kRacing) {
    const std::string found = difference_in_the_end(racing_experts(layout), mode);
    EXPECT_TRUE(found.ends_with("expert_permute slots")) << to_string(layout) << ": " << found;
  }
}

// A part of the state that only one rank updates.
TEST(ExpertShards, AreAllUpdated) {
  for (const Layout& layout : kShardings) {
    const Case planned = on_layout(of_four_layers(expert_cases()[0]), layout);
    const auto steps = whole_steps(planned, deterministic(), 2);
    for (const auto& [name, values] : steps[0].values) {
      int64_t same = 0;
      for (size_t i = 0; i < values.size(); ++i) same += values[i] == steps[1].values.at(name)[i];
      // Padding, tokens that no sample has.
      const bool table = name == "embedding.weight" || name == "head.weight";
      if (table) continue;
      EXPECT_LT(same, static_cast<int64_t>(values.size()) / 10) << name;
    }
  }
}

}  // namespace
}  // namespace dettax
