// Whole training steps of the CUDA backend over the stand-ins: what they compute, and that nothing but the fast mode hangs on the order in
// which streams and blocks run.

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

#include "harness/comm/communicator.h"
#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda/runtime/cuda_device.h"
#include "harness/train/checkpoint.h"
#include "harness/train/operands.h"
#include "harness/train/train_step.h"
#include "tests/cuda/standins/cublaslt.h"
#include "tests/cuda/standins/cudart.h"
#include "tests/train/small_cases.h"

namespace dettax::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::deterministic;
using testing_support::fast;
using testing_support::first_difference;
using testing_support::invariant;
using testing_support::layout_free;
using testing_support::Log;
using testing_support::RankRun;
using testing_support::record_rank;
using testing_support::small_case;
using testing_support::small_gpt;
using testing_support::small_llama;
using testing_support::small_moe;
using testing_support::train_on_ranks;

// In which order streams and blocks run. 0: as they come.
struct Schedule {
  StreamOrder order = StreamOrder::eager;
  uint64_t seed = 0;
};

std::unique_ptr<Communicator> alone() { return std::move(make_thread_communicators(1, false)[0]); }

// One sample less than the CPU tests have, and a shorter sequence: threads of a block are fibres here.
Case tiny(const Model& model) {
  Case planned = small_case(model);
  planned.batch = {2, 4, 6};
  planned.topology.threads_per_rank = 1;
  planned.optimizer.clip_norm = 0.5;  // below what the norm is
  return planned;
}
Case tiny_gpt() {
  Model model = small_gpt();
  model.dropout = 0.2;
  return tiny(model);
}
Case tiny_llama() { return tiny(small_llama()); }
Case tiny_moe() { return tiny(small_moe()); }

std::vector<Case> tiny_cases() { return {tiny_gpt(), tiny_llama(), tiny_moe()}; }

void train_on_cuda(const Case& planned, const Mode& mode,
                   const std::function<void(RankRun&)>& body) {
  const auto communicator = alone();
  const auto device = make_cuda_device(0);
  TrainStep train(planned, mode, *device, *communicator);
  RankRun rank{train, *device, *communicator};
  body(rank);
}

struct Losses {
  std::vector<double> losses, norms;
};
Losses losses_of(RankRun& rank, int steps) {
  Losses found;
  rank.train.reset(rank.train.planned().seed);
  for (int i = 0; i < steps; ++i) {
    const StepResult result = rank.train.step();
    found.losses.push_back(static_cast<double>(result.loss));
    found.norms.push_back(static_cast<double>(result.gradient_norm));
  }
  return found;
}

Losses losses_on_cuda(const Case& planned, const Mode& mode, int steps) {
  Losses found;
  train_on_cuda(planned, mode, [&](RankRun& rank) { found = losses_of(rank, steps); });
  return found;
}
Losses losses_on_cpu(const Case& planned, const Mode& mode, int steps) {
  Losses found;
  train_on_ranks(planned, mode, [&](RankRun& rank) { found = losses_of(rank, steps); });
  return found;
}

// Every output of one step, its results and all state.
Log log_on_cuda(const Case& planned, const Mode& mode, const Schedule& schedule) {
  const FakeCuda fake(schedule.order, schedule.seed);
  const ScheduleOf blocks(schedule.seed);
  Log log;
  train_on_cuda(planned, mode, [&](RankRun& rank) { log = record_rank(rank, planned.seed, 1); });
  EXPECT_EQ(fake.live_allocations(), 0U);
  EXPECT_EQ(fake.overruns(), 0);
  return log;
}

std::vector<Schedule> schedules(uint64_t seeds) {
  std::vector<Schedule> all = {{StreamOrder::lazy, 0}};
  for (uint64_t seed = 1; seed <= seeds; ++seed) all.push_back({StreamOrder::random, seed});
  return all;
}

TEST(CudaTraining, LosesWhatACpuLoses) {
  for (const Case& planned : tiny_cases()) {
    for (const Mode& mode : {fast(), deterministic(), invariant()}) {
      SCOPED_TRACE(planned.model.name + " " + mode.name);
      const FakeCuda fake(StreamOrder::lazy);
      const Losses found = losses_on_cuda(planned, mode, 3);
      const Losses right = losses_on_cpu(planned, mode, 3);
      for (size_t i = 0; i < right.losses.size(); ++i) {
        EXPECT_NEAR(found.losses[i], right.losses[i], 2e-6 * right.losses[i]) << "step " << i;
        EXPECT_NEAR(found.norms[i], right.norms[i], 2e-5 * right.norms[i]) << "step " << i;
      }
      EXPECT_GT(right.norms[0], planned.optimizer.clip_norm);
      EXPECT_EQ(fake.live_allocations(), 0U);
      EXPECT_EQ(fake.overruns(), 0);
    }
  }
}

// Ways through a step that the cases above do not take.
TEST(CudaTraining, LosesWhatACpuLosesOnOtherWaysThroughAStep) {
  const auto expect_near = [](const Case& planned, const Mode& mode, double tolerance) {
    const FakeCuda fake(StreamOrder::lazy);
    const Losses found = losses_on_cuda(planned, mode, 2);
    const Losses right = losses_on_cpu(planned, mode, 2);
    EXPECT_NEAR(found.losses[1], right.losses[1], tolerance * right.losses[1]);
    EXPECT_NEAR(found.norms[1], right.norms[1], 10 * tolerance * right.norms[1]);
  };
  Mode filled = fast();
  filled.knobs.memory_fill = filled.knobs.generic_index_ops = true;
  filled.knobs.fused_loss = !filled.knobs.fused_loss;
  Case recomputed = tiny_moe();
  recomputed.layout.recompute = Recompute::full;
  expect_near(recomputed, filled, 2e-6);
  Mode unfused = invariant();
  unfused.knobs.fused_loss = !unfused.knobs.fused_loss;
  expect_near(tiny_gpt(), unfused, 2e-6);
  // Operands are rounded by the products themselves, and bias gradients not at all.
  Case narrow = tiny_gpt();
  narrow.precision = Precision::tf32;
  expect_near(narrow, deterministic(), 2e-4);
}

// tf32 is no f32: the products are told.
TEST(CudaTraining, RoundsOperandsToTf32WhereItIsAskedFor) {
  const FakeCuda fake(StreamOrder::lazy);
  Case planned = tiny_llama();
  const double exact = losses_on_cuda(planned, deterministic(), 2).norms[1];
  planned.precision = Precision::tf32;
  const double rounded = losses_on_cuda(planned, deterministic(), 2).norms[1];
  EXPECT_NE(exact, rounded);
  EXPECT_NEAR(exact, rounded, 1e-2 * exact);
}

TEST(CudaTraining, TheHeadIsRoundedToTf32ByDevicesThatRoundThemselves) {
  const FakeCuda fake(StreamOrder::eager);
  const auto format = [](Precision precision, Device& on) {
    const Case planned = tiny_gpt();
    return Operands(recipe_of(precision), planned.model.layers, operand_sizes(planned), on)
        .format_in_head();
  };
  const auto cuda = make_cuda_device(0);
  const auto cpu = make_cpu_device(1, false);
  EXPECT_EQ(format(Precision::tf32, *cuda), NumberFormat::tf32);
  EXPECT_EQ(format(Precision::fp32, *cuda), NumberFormat::f32);
  EXPECT_EQ(format(Precision::tf32, *cpu), NumberFormat::f32);
}

// What is saved from a device is the same state when it is read back, and training goes on from it with the same bits.
TEST(CudaTraining, GoesOnFromACheckpoint) {
  const FakeCuda fake(StreamOrder::random, 7);
  const auto folder = std::filesystem::temp_directory_path() /
                      ("dettax-cuda-checkpoint-" + std::to_string(::getpid()));
  const Case planned = tiny_llama();
  std::filesystem::path saved;
  float next = 0;
  train_on_cuda(planned, deterministic(), [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    rank.train.step();
    CheckpointSaver saver({folder, 1}, rank.communicator);
    saver.schedule(rank.train);
    next = rank.train.step().loss;
    saved = saver.finish();
  });
  train_on_cuda(planned, deterministic(), [&](RankRun& rank) {
    load_checkpoint(saved, rank.train, {});
    EXPECT_EQ(rank.train.step().loss, next);
  });
  std::filesystem::remove_all(folder);
}

TEST(CudaTraining, KeepsItsBitsUnderEveryScheduleInTheDeterministicModes) {
  for (const Case& planned : tiny_cases()) {
    for (const Mode& mode : {deterministic(), invariant()}) {
      SCOPED_TRACE(planned.model.name + " " + mode.name);
      const Log first = log_on_cuda(planned, mode, {});
      for (const Schedule& schedule : schedules(8)) {
        EXPECT_EQ(first_difference(first, log_on_cuda(planned, mode, schedule)), "")
            << "seed " << schedule.seed;
      }
    }
  }
}

// Its twin: the fast mode shows that a schedule can be seen in the bits.
TEST(CudaTraining, ShowsTheScheduleInTheFastMode) {
  for (const Case& planned : tiny_cases()) {
    SCOPED_TRACE(planned.model.name);
    const Log first = log_on_cuda(planned, fast(), {});
    int differ = 0;
    for (const Schedule& schedule : schedules(4)) {
      differ += first_difference(first, log_on_cuda(planned, fast(), schedule)).empty() ? 0 : 1;
    }
    EXPECT_GT(differ, 0);
  }
}

TEST(CudaTraining, HasBitsThatDoNotDependOnMicroBatchesInTheInvariantMode) {
  const auto layout_free_log = [](const Mode& mode, int64_t micro) {
    Case planned = tiny_llama();
    planned.batch.micro = micro;
    return layout_free({log_on_cuda(planned, mode, {StreamOrder::lazy, 0})});
  };
  EXPECT_EQ(first_difference(layout_free_log(invariant(), 2), layout_free_log(invariant(), 4)), "");
  EXPECT_NE(
      first_difference(layout_free_log(deterministic(), 2), layout_free_log(deterministic(), 4)),
      "");
}

// A recomputed gelu must have the bits of the first; one that is kept may be the library's own.
TEST(CudaTraining, LeavesGeluToTheLibraryOnlyWhereNothingIsRecomputed) {
  const auto log = [](Recompute recompute, const Mode& mode) {
    Case planned = tiny_gpt();
    planned.layout.recompute = recompute;
    return layout_free({log_on_cuda(planned, mode, {})});
  };
  const Log kernels = log(Recompute::full, deterministic());
  EXPECT_EQ(first_difference(log(Recompute::selective, deterministic()), kernels), "");
  EXPECT_NE(first_difference(log(Recompute::none, deterministic()), kernels), "");
  EXPECT_EQ(first_difference(log(Recompute::none, invariant()), log(Recompute::full, invariant())),
            "");
}

TEST(CudaTraining, DiffersUnderJitterInTheFastModeAlone) {
  const Case planned = tiny_gpt();
  for (const Mode& mode : {fast(), deterministic()}) {
    const FakeCuda fake(StreamOrder::random, 3);
    const ScheduleOf in_turn(0);
    train_on_cuda(planned, mode, [&](RankRun& rank) {
      const Log first = record_rank(rank, planned.seed, 1);
      int differ = 0;
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        rank.device.set_jitter(seed);
        differ += first_difference(first, record_rank(rank, planned.seed, 1)).empty() ? 0 : 1;
      }
      rank.device.set_jitter(0);
      EXPECT_EQ(differ > 0, mode.name == "fast") << differ;
    });
  }
}

Case smallest() {
  Model model = small_gpt();
  model.layers = model.published_layers = 1;
  Case planned = small_case(model);
  planned.batch = {1, 1, 2};
  return planned;
}

// A device is made, a step done, everything freed. Returns what was thrown.
std::string one_short_run() {
  try {
    train_on_cuda(smallest(), deterministic(), [](RankRun& rank) {
      rank.train.reset(1);
      rank.train.step();
      rank.device.synchronize();
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    return error.what();
  }
  return "";
}

// Whichever call fails: one error that names it, and nothing left behind. What only frees has nobody to tell.
TEST(CudaTraining, EndsWithOneClearErrorWhicheverCallFails) {
  FakeCuda fake(StreamOrder::lazy);
  ASSERT_EQ(one_short_run(), "");
  const int64_t calls = fake.calls();
  ASSERT_GT(calls, 100);
  int64_t silent = 0;
  for (int64_t n = 1; n <= calls; ++n) {
    fake.fail_call(n, cudaErrorLaunchFailure);
    const std::string words = one_short_run();
    const std::string name = fake.failed_call();
    ASSERT_FALSE(name.empty()) << n;
    if (words.empty()) {
      ++silent;
      EXPECT_THAT(name, testing::AnyOf("cudaFree", "cudaFreeHost", "cudaStreamDestroy")) << n;
    } else {
      EXPECT_THAT(words, AllOf(HasSubstr("CUDA: " + name), HasSubstr("launch failure"))) << n;
    }
    ASSERT_EQ(fake.live_allocations(), 0U) << n << ' ' << name;
  }
  EXPECT_LT(silent, 30);
}

TEST(CudaTraining, EndsWithOneClearErrorWhicheverCallOfCublasLtFails) {
  const FakeCuda fake(StreamOrder::lazy);
  CublasLtAs library;
  int failed = 0;
  for (int n = 1; n < 1000; ++n) {
    library->fail_at = n;
    const std::string words = one_short_run();
    if (library->fail_at > 0) break;  // there are fewer calls
    ++failed;
    EXPECT_THAT(words, HasSubstr("CUDA: cublasLt")) << n;
    ASSERT_EQ(fake.live_allocations(), 0U) << n;
    ASSERT_EQ(library->live_objects, 0) << n;
  }
  EXPECT_GT(failed, 50);
}

TEST(CudaTraining, SaysWhenTheModelDoesNotFit) {
  const FakeCuda fake(StreamOrder::lazy, 0, 64 << 10);
  EXPECT_THAT(one_short_run(), AllOf(HasSubstr("cudaMalloc of"), HasSubstr("out of memory")));
  EXPECT_EQ(fake.live_allocations(), 0U);
}

}  // namespace
}  // namespace dettax::test
