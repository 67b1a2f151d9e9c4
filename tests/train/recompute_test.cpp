// Recomputation: the same bits for less memory.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/team.h"
#include "small_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

Case dropping_case(const Model& model, Recompute recompute) {
  Case planned = small_case(model);
  planned.model.dropout = 0.1;
  planned.model.layers = planned.model.published_layers = 3;
  planned.batch = {2, 4, 12};
  planned.layout.recompute = recompute;
  return planned;
}

std::vector<Log> without_recomputed(std::vector<Log> logs) {
  for (Log& log : logs) {
    std::erase_if(log,
                  [](const Entry& e) { return e.path.find("recompute/") != std::string::npos; });
  }
  return logs;
}

TEST(Recompute, GivesTheSameBitsAsKeeping) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    for (Mode mode : {deterministic(), invariant()}) {
      for (const bool fill : {false, true}) {
        mode.knobs.memory_fill = fill;
        const auto kept = record(dropping_case(model, Recompute::none), mode, 2);
        for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
          const auto again = record(dropping_case(model, recompute), mode, 2);
          EXPECT_GT(again.front().size(), kept.front().size());
          EXPECT_EQ(first_difference(kept, without_recomputed(again)), "")
              << model.name << " " << to_string(recompute) << " " << mode.name;
        }
      }
    }
  }
}

// Narrow activations too: what is computed again starts from what is stored.
TEST(Recompute, GivesTheSameBitsInNarrowPrecisions) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    for (const Precision precision : {Precision::bf16, Precision::fp8_ds}) {
      Case planned = dropping_case(model, Recompute::none);
      planned.precision = precision;
      const auto kept = record(planned, deterministic(), 2);
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        planned.layout.recompute = recompute;
        const auto again = without_recomputed(record(planned, deterministic(), 2));
        EXPECT_EQ(first_difference(kept, again), "")
            << model.name << " " << to_string(recompute) << " " << to_string(precision);
      }
    }
  }
}

// Sharded weights are gathered for the first of the two passes.
std::vector<Log> without_gathers(std::vector<Log> logs) {
  for (Log& log : logs)
    std::erase_if(log, [](const Entry& e) { return e.path.ends_with("/weight_gather"); });
  return logs;
}

TEST(Recompute, GivesTheSameBitsOnEveryLayout) {
  for (const Layout& layout :
       {Layout{.pp = 2}, Layout{.dp = 2, .zero_stage = 3},
        Layout{.dp = 2, .tp = 2, .pp = 2, .sequence_parallel = true, .zero_stage = 1}}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8_ds}) {
      for (const Model& model : {small_gpt(), small_llama()}) {
        Case planned = dropping_case(model, Recompute::none);
        planned.model.layers = planned.model.published_layers = 4;
        planned.topology.threads_per_rank = 1;
        planned.precision = precision;
        planned.batch = {1, 4, 12};
        planned.layout = layout;
        const auto kept = record(planned, deterministic(), 2);
        for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
          planned.layout.recompute = recompute;
          const auto again = without_recomputed(record(planned, deterministic(), 2));
          EXPECT_EQ(first_difference(without_gathers(kept), without_gathers(again)), "")
              << model.name << " " << to_string(precision) << " " << to_string(planned.layout);
        }
      }
    }
  }
}

// Every recomputed tensor is what the forward pass had at the same place.
TEST(Recompute, RepeatsTheForwardPass) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      const Log log = record(dropping_case(model, recompute), deterministic(), 1).front();
      int compared = 0;
      for (const Entry& entry : log) {
        const size_t at = entry.path.find("recompute/");
        if (at == std::string::npos) continue;
        std::string path = entry.path;
        path.replace(at, 9, "forward");
        const std::string fused = path.substr(0, path.rfind('/')) + "/mlp_up";  // for gelu
        // The last entry of this op: some are shown again after their epilogue.
        const auto same = [&](const Entry& e) {
          return (e.path == path || (path.ends_with("/gelu") && e.path == fused)) &&
                 e.tensor == entry.tensor && e.value == entry.value;
        };
        EXPECT_TRUE(std::ranges::any_of(log, same)) << entry.path << " " << entry.tensor;
        ++compared;
      }
      EXPECT_GT(compared, 2 * 3 * 5);
    }
  }
}

TEST(Recompute, KeepsLessTheMoreItComputesAgain) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    std::vector<int64_t> bytes;
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Case planned = dropping_case(model, recompute);
      planned.model.layers = 8;
      train_on_ranks(planned, deterministic(),
                     [&](RankRun& rank) { bytes.push_back(rank.train.allocated_bytes()); });
    }
    EXPECT_LT(bytes[1], bytes[0]);
    EXPECT_LT(bytes[2], bytes[1]);
  }
}

// A device whose dropout draws other masks outside the forward pass, in one layer: activation checkpointing that does not restore the
// random number state. `op` tells which op is running.
class RedrawingOps : public CpuOps {
 public:
  RedrawingOps(Team& team, const std::function<std::string()>& op) : CpuOps(team), op_(op) {}
  void dropout(const Dropout& call) override {
    Dropout fresh = call;
    const std::string op = op_();
    if (!op.starts_with("forward/") && op.find("/layer3/") != std::string::npos) fresh.step += 1000;
    CpuOps::dropout(fresh);
  }

 private:
  std::function<std::string()> op_;
};

class RedrawingDevice : public Device {
 public:
  explicit RedrawingDevice(const std::function<std::string()>& op)
      : cpu_(make_cpu_device(1, false)), team_(1, false), ops_(team_, op) {}
  Buffer allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  Ops& ops() override { return ops_; }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    cpu_->copy_to_host(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, size_t bytes) override {
    cpu_->copy_from_host(to, from, bytes);
  }
  Fingerprint fingerprint(const Tensor& tensor, uint64_t first_index) override {
    return cpu_->fingerprint(tensor, first_index);
  }
  Fingerprint fingerprint_rows(const Tensor& tensor, uint64_t first_index,
                               uint64_t stride) override {
    return cpu_->fingerprint_rows(tensor, first_index, stride);
  }
  bool all_finite(const Tensor& tensor) override { return cpu_->all_finite(tensor); }
  void synchronize() override { cpu_->synchronize(); }
  void set_jitter(uint64_t seed) override { cpu_->set_jitter(seed); }
  std::string description() const override { return "redraws dropout masks"; }

 private:
  std::unique_ptr<Device> cpu_;
  Team team_;
  RedrawingOps ops_;
};

std::vector<Log> record_redrawing(const Case& planned, int steps) {
  const auto group = make_thread_communicators(1, false);
  const TrainStep* running = nullptr;
  RedrawingDevice device(
      [&] { return running == nullptr ? std::string() : std::string(running->current_op()); });
  TrainStep train(planned, deterministic(), device, *group.front());
  running = &train;
  RankRun rank{train, device, *group.front()};
  return {record_rank(rank, planned.seed, steps)};
}

std::vector<Log> only(std::vector<Log> logs, const std::string& part) {
  for (Log& log : logs)
    std::erase_if(log, [&](const Entry& e) { return e.path.find(part) == std::string::npos; });
  return logs;
}

// cases/layout.md, layout-04.
TEST(Case, Layout04RecomputationThatRedrawsItsMasksIsSeenAtTheMask) {
  Case planned = dropping_case(small_gpt(), Recompute::full);
  planned.model.layers = planned.model.published_layers = 4;
  planned.batch = {4, 4, 12};
  planned.topology.threads_per_rank = 1;
  Case off = planned;
  off.layout.recompute = Recompute::none;
  const auto kept = record(off, deterministic(), 1);
  const auto right = record(planned, deterministic(), 1);
  const auto wrong = record_redrawing(planned, 1);
  EXPECT_EQ(first_difference(only(kept, "forward/"), only(wrong, "forward/")), "");
  EXPECT_EQ(first_difference(right, wrong), "recompute/layer3/projection_dropout y");
  EXPECT_EQ(first_difference(kept, without_recomputed(right)), "");
  EXPECT_EQ(first_difference(kept, without_recomputed(wrong)), "backward/layer3/mlp_dropout y");
  // Run to run it passes: two runs with the fault agree.
  EXPECT_EQ(first_difference(wrong, record_redrawing(planned, 1)), "");
}

}  // namespace
}  // namespace dettax
