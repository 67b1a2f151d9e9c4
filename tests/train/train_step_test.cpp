#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "harness/train/gradient_tree.h"
#include "harness/train/storage_plan.h"
#include "small_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

std::string sentence_of(const Case& planned) {
  try {
    train_on_ranks(planned, fast(), [](RankRun&) {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A file that goes with the test.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(testing::TempDir() + "dettax_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Case text_case(const std::string& path) {
  Case planned = small_case(small_gpt());
  planned.model.vocabulary = 256;
  planned.data.kind = "text";
  planned.data.path = path;
  return planned;
}

TEST(Training, LowersTheLossOnText) {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += "the quick brown fox jumps over the lazy dog, " + std::to_string(i) + " times. ";
  const TextFile file(text);
  for (Model model : {small_gpt(), small_llama()}) {
    model.vocabulary = 256;
    Case planned = text_case(file.path());
    planned.model = model;
    planned.batch = {8, 8, 24};
    planned.optimizer.learning_rate = 0.01;
    for (const Mode& mode : {fast(), deterministic(), invariant()}) {
      train_on_ranks(planned, mode, [&](RankRun& rank) {
        rank.train.reset(1);
        const float before = rank.train.step().loss;
        float after = 0;
        for (int i = 0; i < 30; ++i) after = rank.train.step().loss;
        EXPECT_NEAR(before, 5.5F, 0.2F);  // log 256
        EXPECT_LT(after, 3.0F) << model.name << " " << mode.name;
        EXPECT_EQ(rank.train.steps_done(), 31);
      });
    }
  }
}

TEST(Training, RefusesATextThatWasNotPlannedWith) {
  const TextFile tiny("twelve bytes");
  for (const std::string& path : {std::string("/no/such/file"), std::string("/"), tiny.path()}) {
    EXPECT_EQ(sentence_of(text_case(path)),
              "rank 0: data.path: " + path + ": is not the text that was planned with");
  }
  Case unknown = small_case(small_gpt());
  unknown.data.kind = "txt";
  EXPECT_NE(sentence_of(unknown).find("zipf or text would be right"), std::string::npos);
}

TEST(Training, RefusesWhatItCannotRun) {
  Case planned = small_case(small_gpt());
  planned.batch = {4, 6, 12};
  EXPECT_NE(sentence_of(planned).find("must be a multiple of micro 4"), std::string::npos);
  planned = small_case(small_gpt());
  planned.batch.sequence_length = 25;
  EXPECT_NE(sentence_of(planned).find("exceeds the 24 positions"), std::string::npos);
  planned = small_case(small_gpt());
  planned.model.moe = Moe{};
  EXPECT_NE(sentence_of(planned).find("not implemented"), std::string::npos);
}

TEST(Training, SaysThatAResultIsNotFinite) {
  Case planned = small_case(small_gpt());
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    rank.train.reset(1);
    EXPECT_TRUE(rank.train.step().finite);
    rank.train.parameters()[3].value.f32()[5] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(rank.train.step().finite);
    rank.train.reset(1);
    EXPECT_TRUE(rank.train.step().finite);
  });
}

TEST(Training, OneRankCommunicatesNothing) {
  train_on_ranks(small_case(small_gpt()), deterministic(), [](RankRun& rank) {
    rank.train.reset(1);
    const int64_t before = rank.communicator.stats().calls;
    rank.train.step();
    EXPECT_EQ(rank.communicator.stats().calls, before);
    const Mesh& mesh = rank.train.mesh();
    for (const Communicator* group : {&mesh.tensor(), &mesh.replicas(), &mesh.model()})
      EXPECT_EQ(group->stats().calls, 0);
  });
}

TEST(Training, RanksReduceGradientsAndLossOnce) {
  Case planned = small_case(small_gpt());
  planned.layout.dp = 2;
  planned.batch = {1, 4, 12};
  train_on_ranks(planned, deterministic(), [](RankRun& rank) {
    rank.train.reset(1);
    const Communicator& replicas = rank.train.mesh().replicas();
    const CommunicationStats before = replicas.stats();
    rank.train.step();
    int64_t count = 0;
    for (const auto& p : rank.train.parameters()) count += p.value.count();
    EXPECT_EQ(replicas.stats().calls - before.calls, 2);  // one bucket and the loss
    EXPECT_EQ(replicas.stats().bytes - before.bytes, 4 * count + 4);
  });
}

class StopAtAttention : public StepObserver {
 public:
  std::atomic<bool> reached{false}, go_on{false};
  void on_op(std::string_view path) override {
    if (path != "micro1/backward/layer1/attention") return;
    reached = true;
    reached.notify_all();
    go_on.wait(false);
  }
  void on_tensor(std::string_view, std::string_view, const Tensor&, uint64_t) override {}
};

TEST(Training, TheOpInProgressCanBeReadFromAnotherThread) {
  Case planned = small_case(small_gpt());
  planned.batch = {2, 4, 12};
  const auto device = make_cpu_device(1, false);
  const auto group = make_thread_communicators(1, false);
  TrainStep train(planned, deterministic(), *device, *group.front());
  train.reset(1);
  EXPECT_STREQ(train.current_op(), "idle");
  StopAtAttention observer;
  train.observe(&observer);
  std::jthread stepping([&] { train.step(); });
  observer.reached.wait(false);
  EXPECT_STREQ(train.current_op(), "backward/layer1/attention");
  EXPECT_GT(train.ops_issued(), 20);
  observer.go_on = true;
  observer.go_on.notify_all();
  stepping.join();
  EXPECT_STREQ(train.current_op(), "idle");
}

TEST(Buckets, CoverTheGradientsOnceFromTheBack) {
  Model model = small_gpt();
  model.width = 512;
  model.ffn_width = 2048;
  model.layers = 8;
  const ModelLayout layout = make_model_layout(model, whole_model(model));
  for (const bool apart : {false, true}) {
    const StoragePlan plan = plan_storage(layout, {.apart = apart});
    EXPECT_GE(plan.buckets.size(), 3U);
    int64_t end = plan.gradients;
    for (const Bucket& bucket : plan.buckets) {
      EXPECT_EQ(bucket.end, end);
      const bool of_head = apart && bucket.begin == plan.head_gradient;
      EXPECT_TRUE(of_head || bucket.begin == 0 || bucket.end - bucket.begin >= 6250000);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0);
  }
}

TEST(Buckets, AreCutIntoEqualShardsOfWholeCacheLines) {
  const Model model = small_llama();
  const ModelLayout layout = make_model_layout(model, whole_model(model));
  for (const int shards : {1, 2, 3, 7}) {
    for (const bool by_layer : {false, true}) {
      const StoragePlan plan =
          plan_storage(layout, {.shards = {shards, 0}, .shard_weights = by_layer});
      EXPECT_EQ(plan.buckets.size(), by_layer ? 4U : 1U);  // tables, two layers, norm and head
      for (const Bucket& bucket : plan.buckets)
        EXPECT_EQ((bucket.end - bucket.begin) % (16 * shards), 0);
      for (size_t p = 0; p < plan.offsets.size(); ++p) {
        const Bucket& bucket = plan.buckets[static_cast<size_t>(plan.bucket_of[p])];
        EXPECT_GE(plan.offsets[p], bucket.begin);
        EXPECT_LE(plan.offsets[p] + layout.parameters[p].count(), bucket.end);
      }
    }
  }
}

TEST(GradientTree, NeedsOneCopyALevel) {
  const auto copies = [](int64_t micro_batches, bool tree) {
    return GradientTree{tree, micro_batches}.copies();
  };
  EXPECT_EQ(copies(8, false), 1);
  EXPECT_EQ(copies(1, true), 1);
  EXPECT_EQ(copies(2, true), 2);
  EXPECT_EQ(copies(3, true), 2);
  EXPECT_EQ(copies(4, true), 3);
  EXPECT_EQ(copies(8, true), 4);
}

// What the plan says before anything is allocated, and what is.
TEST(MemoryEstimate, IsWhatTheTrainerAllocates) {
  std::vector<Case> cases{small_case(small_gpt()), small_case(small_llama()),
                          small_case(small_gpt()), small_case(small_gpt()),
                          small_case(small_llama())};
  cases[1].batch = {2, 8, 12};
  cases[2].model.dropout = 0.1;
  cases[2].batch.sequence_length = 20;
  for (const Layout& layout : {Layout{.dp = 2, .tp = 2}, Layout{.tp = 2, .sequence_parallel = true},
                               Layout{.dp = 2, .zero_stage = 1}, Layout{.dp = 4, .zero_stage = 3},
                               Layout{.cp = 2}, Layout{.dp = 2, .tp = 2, .cp = 2}}) {
    cases.push_back(cases[0]);
    cases.back().layout = layout;
    cases.back().batch = {1, 4, 20};
    cases.push_back(cases[1]);
    cases.back().layout = layout;
    cases.back().batch = {2, 8, 12};
  }
  cases.push_back(cases[0]);
  cases.back().layout.cp = 4;
  cases.back().batch.sequence_length = 24;
  cases.push_back(cases[0]);
  cases.back().precision = Precision::fp8_ds;
  for (const auto& [pp, vp, schedule] : {std::tuple{2, 1, PipelineSchedule::one_f_one_b},
                                         {2, 1, PipelineSchedule::gpipe},
                                         {4, 1, PipelineSchedule::one_f_one_b},
                                         {2, 2, PipelineSchedule::interleaved}}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Case& piped = cases.emplace_back(small_case(small_gpt()));
      piped.model.layers = 8;
      piped.batch = {1, 8, 12};
      piped.layout.pp = pp;
      piped.layout.vp = vp;
      piped.layout.schedule = schedule;
      piped.layout.recompute = recompute;
    }
  }
  cases.push_back(cases[1]);
  cases.back().layout.recompute = Recompute::selective;
  cases.push_back(cases[2]);
  cases.back().layout.recompute = Recompute::full;
  cases.push_back(cases[0]);
  cases.back().batch = {1, 4, 20};
  cases.back().layout = {
      .dp = 2, .tp = 2, .pp = 2, .sequence_parallel = true, .recompute = Recompute::selective};
  for (const Layout& layout :
       {Layout{.dp = 2, .zero_stage = 1}, Layout{.dp = 2, .zero_stage = 3},
        Layout{.dp = 2, .tp = 2, .zero_stage = 3}, Layout{.dp = 2, .pp = 2, .zero_stage = 1},
        Layout{.dp = 2, .pp = 2, .zero_stage = 3}}) {
    cases.push_back(cases[0]);
    cases.back().model.layers = 8;
    cases.back().batch = {1, 4, 20};
    cases.back().layout = layout;
  }
  for (const int ep : {1, 2}) {
    Case& experts = cases.emplace_back(small_case(small_moe()));
    experts.layout = {.dp = 2, .ep = ep};
    experts.batch = {2, 4, 12};
    Case& shared = cases.emplace_back(experts);
    shared.model.moe->shared_experts = 1;
    shared.model.moe->first_layer = 1;
    shared.model.moe->capacity_factor = 1;
  }
  cases.push_back(small_case(small_moe()));
  cases.back().layout = {.dp = 2, .zero_stage = 3};
  cases.back().batch = {2, 4, 12};
  for (const Layout& layout :
       {Layout{.pp = 2}, Layout{.dp = 2, .pp = 2, .ep = 2, .zero_stage = 1},
        Layout{.pp = 2, .vp = 2, .schedule = PipelineSchedule::interleaved},
        Layout{.dp = 2, .ep = 2, .zero_stage = 3}, Layout{.dp = 4, .ep = 2, .zero_stage = 3},
        Layout{.recompute = Recompute::selective}, Layout{.recompute = Recompute::full},
        Layout{.dp = 2, .pp = 2, .ep = 2, .recompute = Recompute::full},
        Layout{.dp = 2, .cp = 2, .ep = 2}, Layout{.dp = 2, .tp = 2, .ep = 2, .zero_stage = 1},
        Layout{.tp = 2, .sequence_parallel = true}}) {
    for (const int shared : {0, 1}) {
      Case& experts = cases.emplace_back(small_case(small_moe()));
      experts.model.layers = 4;
      experts.model.moe->shared_experts = experts.model.moe->first_layer = shared;
      experts.layout = layout;
      experts.batch = {1, 8, 12};
    }
  }
  for (Case& planned : cases) planned.topology.ranks_per_node = planned.layout.ranks();
  for (const Case& planned : cases) {
    for (Mode mode : {fast(), deterministic(), invariant()}) {
      for (const bool fused : {true, false}) {
        mode.knobs.fused_loss = fused;
        const MemoryEstimate estimate = estimate_memory(planned, mode);
        const int64_t expected =
            estimate.weights + estimate.gradients + estimate.optimizer + estimate.activations;
        std::atomic<int64_t> found{0};
        train_on_ranks(planned, mode,
                       [&](RankRun& rank) { found += rank.train.allocated_bytes(); });
        EXPECT_NEAR(static_cast<double>(expected) / static_cast<double>(found.load()), 1.0, 0.02)
            << planned.id() << " " << mode.name;
      }
    }
  }
}

}  // namespace
}  // namespace dettax
