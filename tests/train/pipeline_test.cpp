// Pipeline stages: what one rank computes, spread over several.

#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "layout_runs.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

struct Pipeline {
  std::string name;
  Layout layout;
};
std::ostream& operator<<(std::ostream& out, const Pipeline& p) { return out << p.name; }

Layout layout_of(int dp, int pp, int vp, PipelineSchedule schedule) {
  Layout layout;
  layout.dp = dp;
  layout.pp = pp;
  layout.vp = vp;
  layout.schedule = schedule;
  return layout;
}

std::vector<Pipeline> pipelines() {
  const auto gpipe = PipelineSchedule::gpipe;
  const auto one_f_one_b = PipelineSchedule::one_f_one_b;
  const auto interleaved = PipelineSchedule::interleaved;
  return {
      {"pp2_gpipe", layout_of(1, 2, 1, gpipe)},        {"pp2", layout_of(1, 2, 1, one_f_one_b)},
      {"pp4", layout_of(1, 4, 1, one_f_one_b)},        {"pp4_gpipe", layout_of(1, 4, 1, gpipe)},
      {"pp2_vp2", layout_of(1, 2, 2, interleaved)},    {"dp2_pp2", layout_of(2, 2, 1, one_f_one_b)},
      {"dp2_pp2_vp2", layout_of(2, 2, 2, interleaved)}};
}

Case piped(Model model, const Layout& layout, int64_t micro_batches) {
  model.layers = model.published_layers = 4;
  Case planned = small_case(model);
  planned.layout = layout;
  planned.topology.threads_per_rank = 1;
  planned.batch = {1, micro_batches * layout.dp, 12};
  planned.optimizer.learning_rate = 0.01;
  // Gradients that are 0 but for rounding, as those of key biases, must not become steps of full length.
  planned.optimizer.epsilon = 0.01;
  return planned;
}

Case on_one_rank(Case planned) {
  planned.layout = Layout{};
  return planned;
}

// What a rank ends its steps with.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::map<std::string, std::vector<float>>> gradients, weights;  // of each step
};

std::vector<Outcome> train(const Case& planned, const Mode& mode, int steps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(planned.layout.ranks()));
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    Outcome& outcome = outcomes[static_cast<size_t>(rank.communicator.rank())];
    rank.train.reset(planned.seed);
    for (int i = 0; i < steps; ++i) {
      const StepResult result = rank.train.step();
      outcome.losses.push_back(result.loss);
      auto& gradients = outcome.gradients.emplace_back();
      auto& weights = outcome.weights.emplace_back();
      for (const auto& p : rank.train.parameters()) {
        gradients[p.name].assign(p.gradient.f32(), p.gradient.f32() + p.gradient.count());
        weights[p.name].assign(p.value.f32(), p.value.f32() + p.value.count());
      }
    }
  });
  return outcomes;
}

// The same products summed in another order here and there: a few units in the last place of fp32, 6e-8, times the length of sums.
void expect_agreement(const Case& planned, const Mode& mode) {
  EXPECT_EQ(
      disagreement(whole_steps(on_one_rank(planned), mode, 2), whole_steps(planned, mode, 2), 1e-5),
      "")
      << planned.model.name << " " << mode.name;
}

Model dropping(Model model) {
  model.dropout = 0.1;
  return model;
}

class APipeline : public testing::TestWithParam<Pipeline> {};
INSTANTIATE_TEST_SUITE_P(Layouts, APipeline, testing::ValuesIn(pipelines()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(APipeline, AgreesWithOneRankWhereTheTableIsTied) {
  for (const int64_t micro_batches : {4, 8})
    expect_agreement(piped(small_gpt(), GetParam().layout, micro_batches), fast());
  expect_agreement(piped(dropping(small_gpt()), GetParam().layout, 4), deterministic());
}

TEST_P(APipeline, AgreesWithOneRankWhereTheHeadIsItsOwn) {
  for (const int64_t micro_batches : {4, 8})
    expect_agreement(piped(small_llama(), GetParam().layout, micro_batches), fast());
  Mode separate = deterministic();
  separate.knobs.fused_loss = false;
  separate.knobs.memory_fill = true;
  expect_agreement(piped(dropping(small_llama()), GetParam().layout, 4), separate);
}

// Every sum over samples is made on one stage in the order of micro-batches, as on one rank. Without clipping, whose norm is summed
// stage by stage, nothing tells the layouts apart; but for a tied table, whose two uses only the invariant mode keeps apart.
TEST_P(APipeline, GivesTheBitsOfOneStage) {
  const Layout& layout = GetParam().layout;
  const auto expect_bits = [&](const Model& model, const Mode& mode) {
    Case planned = piped(model, layout, 4);
    planned.optimizer.clip_norm = 0;
    Case one = on_one_rank(planned);
    one.layout.dp = layout.dp;
    const Outcome expected = train(one, mode, 3).front();
    for (const Outcome& rank : train(planned, mode, 3)) {
      EXPECT_EQ(rank.losses, expected.losses) << mode.name;
      for (size_t step = 0; step < 3; ++step) {
        for (const auto& [name, gradient] : rank.gradients[step])
          EXPECT_EQ(gradient, expected.gradients[step].at(name)) << name << " in step " << step;
        for (const auto& [name, weight] : rank.weights[step])
          EXPECT_EQ(weight, expected.weights[step].at(name)) << name << " in step " << step;
      }
    }
  };
  expect_bits(dropping(small_llama()), deterministic());
  expect_bits(dropping(small_llama()), invariant());
  expect_bits(dropping(small_gpt()), invariant());
}

TEST_P(APipeline, RecomputesTheSameBits) {
  for (const Model& model : {dropping(small_gpt()), dropping(small_llama())}) {
    Case planned = piped(model, GetParam().layout, 4);
    const auto kept = train(planned, deterministic(), 2);
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      planned.layout.recompute = recompute;
      const auto again = train(planned, deterministic(), 2);
      for (size_t r = 0; r < kept.size(); ++r) {
        EXPECT_EQ(again[r].losses, kept[r].losses);
        EXPECT_EQ(again[r].gradients, kept[r].gradients) << to_string(recompute);
      }
    }
  }
}

TEST_P(APipeline, RepeatsItsBitsWhereTheModePromisesIt) {
  for (const Mode& mode : {deterministic(), invariant()}) {
    for (const bool overlap : {true, false}) {
      Mode either = mode;
      either.knobs.overlap = overlap;
      const Case planned = piped(dropping(small_gpt()), GetParam().layout, 8);
      EXPECT_EQ(first_difference(record(planned, mode, 2), record(planned, either, 2)), "");
    }
  }
}

TEST_P(APipeline, BothTiedTablesStayTheSame) {
  const Case planned = piped(small_gpt(), GetParam().layout, 4);
  for (const Mode& mode : {fast(), deterministic()}) {
    const auto ranks = train(planned, mode, 3);
    const auto& first = ranks.front().weights.back().at("embedding.weight");
    EXPECT_EQ(ranks.back().weights.back().at("embedding.weight"), first) << mode.name;
    EXPECT_NE(ranks.back().weights.front().at("embedding.weight"), first);
  }
}

TEST_P(APipeline, BeginsWithTheWeightsOfOneRank) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    const Case planned = piped(model, GetParam().layout, 4);
    std::map<std::string, Fingerprint> expected;
    const Log one = record(on_one_rank(planned), fast(), 0).front();
    for (const Entry& e : one) expected[e.tensor] = e.value;
    for (const Log& log : record(planned, fast(), 0)) {
      EXPECT_FALSE(log.empty());
      for (const Entry& e : log) EXPECT_EQ(e.value, expected.at(e.tensor)) << e.tensor;
    }
  }
}

// Each stage shards what it holds; a tied table's shards are the same on both of its stages.
TEST(Pipelines, ShardTheOptimizerOfTheirChunks) {
  for (const int vp : {1, 2}) {
    for (const int zero_stage : {1, 3}) {
      Layout layout = layout_of(
          2, 2, vp, vp == 1 ? PipelineSchedule::one_f_one_b : PipelineSchedule::interleaved);
      layout.zero_stage = zero_stage;
      for (const Model& model : {small_gpt(), small_llama()}) {
        const Case planned = piped(model, layout, 4);
        expect_agreement(planned, fast());
        expect_agreement(planned, deterministic());
        Mode after = deterministic();
        after.knobs.overlap = false;
        EXPECT_EQ(disagreement(whole_steps(planned, deterministic(), 2),
                               whole_steps(planned, after, 2), 1e-12),
                  "")
            << "overlap changes no bit";
      }
    }
  }
}

// One bit of one message.
class Flip : public StepObserver {
 public:
  explicit Flip(Log& log, Device& device) : log_(log), device_(device) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t first_index) override {
    if (path == "micro2/backward/layer1/pipeline_receive")
      tensor.f32()[5] = std::nextafter(tensor.f32()[5], 1.0F);
    log_.push_back(
        {std::string(path), std::string(name), device_.fingerprint(tensor, first_index)});
  }

 private:
  Log& log_;
  Device& device_;
};

TEST(Pipelines, AMessageThatChangedOnItsWayIsSeenThere) {
  const Case planned = piped(small_gpt(), layout_of(1, 2, 1, PipelineSchedule::one_f_one_b), 4);
  const auto expected = record(planned, deterministic(), 1);
  Log found;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    Log log;
    Flip flip(log, rank.device);
    rank.train.observe(&flip);
    rank.train.step();
    rank.train.observe(nullptr);
    if (rank.communicator.rank() == 0) found = log;
  });
  Log undisturbed = expected.front();
  std::erase_if(undisturbed,
                [](const Entry& e) { return e.path == "state" || e.path == "result"; });
  EXPECT_EQ(first_difference(undisturbed, found), "micro2/backward/layer1/pipeline_receive dy");
}

// Residual stream there and gradient back, once for each micro-batch and boundary.
TEST(Pipelines, SendsWhatItMustAndNoMore) {
  for (const auto& [name, layout] : pipelines()) {
    const Case planned = piped(small_gpt(), layout, 4);
    train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
      rank.train.reset(1);
      const Mesh& mesh = rank.train.mesh();
      rank.train.step();
      const OperationStats there = mesh.pipeline().stats().of(OperationKind::send);
      const OperationStats back = mesh.pipeline_backward().stats().of(OperationKind::send);
      const int64_t bytes = 12 * planned.model.width * 4;
      const int behind = mesh.last_stage() ? layout.vp - 1 : layout.vp;
      const int before = mesh.first_stage() ? layout.vp - 1 : layout.vp;
      EXPECT_EQ(there.calls, 4 * behind) << name;
      EXPECT_EQ(there.bytes, 4 * behind * bytes) << name;
      EXPECT_EQ(back.calls, 4 * before) << name;
      EXPECT_EQ(back.bytes, 4 * before * bytes) << name;
    });
  }
}

TEST(Pipelines, EndsWithTheOthersWhenOneStageFails) {
  class Failing : public StepObserver {
   public:
    void on_op(std::string_view path) override {
      if (path == "micro1/backward/layer2/mlp_up")
        throw Error(ErrorKind::infrastructure, "a stage gave up");
    }
    void on_tensor(std::string_view, std::string_view, const Tensor&, uint64_t) override {}
  };
  const Case planned = piped(small_gpt(), layout_of(1, 4, 1, PipelineSchedule::one_f_one_b), 8);
  try {
    train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
      Failing failing;
      rank.train.reset(1);
      rank.train.observe(&failing);
      rank.train.step();
    });
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 2: a stage gave up"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dettax
