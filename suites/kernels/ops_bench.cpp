#include "suites/kernels/ops_bench.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <benchmark/benchmark.h>

#include "harness/base/random.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"
#include "suites/kernels/benches.h"
#include "suites/kernels/roofline.h"

namespace dettax {
namespace {

constexpr int64_t kColdBytes = int64_t{64} << 20;

struct Variant {
  const char* name;
  SumOrder sum;
};
const Variant kVariants[] = {{"arrival_dynamic", {Order::arrival, true}},
                             {"arrival_static", {Order::arrival, false}},
                             {"ordered", {Order::ordered, false}},
                             {"invariant", {Order::invariant, false}}};

struct Bench {
  Team team{static_cast<int>(std::thread::hardware_concurrency()), true};
  CpuOps ops{team};
};

}  // namespace

Cold::Cold(int64_t rows, int64_t columns, int64_t cold_bytes)
    : rows_(rows),
      columns_(columns),
      copies_(std::max<int64_t>(1, cold_bytes / (rows * columns * 4))),
      memory_(allocate_pages(static_cast<size_t>(copies_ * rows * columns * 4))) {
  auto* data = static_cast<float*>(memory_.data());
  for (int64_t i = 0; i < copies_ * rows * columns; ++i) {
    const auto hash = static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15U;
    data[i] = static_cast<float>(hash >> 40U) * 0x1p-23f - 1.0f;
  }
}

Tensor Cold::next() {
  turn_ = (turn_ + 1) % copies_;
  return make_tensor(static_cast<float*>(memory_.data()) + turn_ * rows_ * columns_, DType::f32,
                     {rows_, columns_});
}

std::shared_ptr<Cold> cold(int64_t rows, int64_t columns) {
  return std::make_shared<Cold>(rows, columns, kColdBytes);
}
std::shared_ptr<Cold> warm(int64_t rows, int64_t columns) {
  return std::make_shared<Cold>(rows, columns, 0);
}

std::shared_ptr<std::vector<int32_t>> zipf_ids(const StepShape& s) {
  auto ids = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(s.rows()));
  for (size_t i = 0; i < ids->size(); ++i) {
    const double u = uniform(random_words({1, RandomPurpose::test, 0}, 0, i)[0]);
    (*ids)[i] = static_cast<int32_t>(std::pow(static_cast<double>(s.vocabulary), u)) - 1;
  }
  return ids;
}
Tensor tensor(std::vector<int32_t>& ids) {
  return make_tensor(ids.data(), DType::i32, {static_cast<int64_t>(ids.size())});
}

void add_benchmark(const std::string& name, const MakeWork& make, const SumOrder& sum) {
  const auto body = [make, sum](benchmark::State& state) {
    Bench bench;
    const Work work = make(bench.ops, sum);
    work.call();
    for ([[maybe_unused]] auto iteration : state) work.call();
    state.SetBytesProcessed(state.iterations() * work.bytes);
    if (work.calls > 0) state.counters["calls"] = static_cast<double>(work.calls);
    if (work.flops > 0) {
      state.counters["flops_per_second"] =
          benchmark::Counter(work.flops, benchmark::Counter::kIsIterationInvariantRate);
    }
    state.counters["of_roofline_ratio"] =
        benchmark::Counter(least_seconds(work.flops, static_cast<double>(work.bytes)),
                           benchmark::Counter::kIsIterationInvariantRate);
  };
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void add_variants(const std::string& name, const MakeWork& make) {
  for (const Variant& v : kVariants) add_benchmark(name + "/" + v.name, make, v.sum);
}
void add_arrival_and_ordered(const std::string& name, const MakeWork& make) {
  for (const Variant& v : kVariants) {
    if (v.sum.order != Order::invariant) add_benchmark(name + "/" + v.name, make, v.sum);
  }
}

namespace {

// All that a model may have, but experts.
StepShape shape(const char* name, int64_t samples, int64_t tokens, int64_t width, int64_t heads,
                int64_t layers, int64_t vocabulary, int64_t parameters) {
  StepShape s;
  s.model = name;
  s.samples = samples;
  s.tokens = tokens;
  s.width = width;
  s.heads = heads;
  s.layers = layers;
  s.vocabulary = vocabulary;
  s.parameters = parameters;
  s.swiglu = s.rope = s.drops_out = true;
  return s;
}

}  // namespace

const std::vector<StepShape>& default_shapes() {
  static const std::vector<StepShape> kShapes = {
      shape("gpt2_B4T64", 4, 64, 768, 12, 12, 50304, 124475904),
      shape("gpt2_B4T256", 4, 256, 768, 12, 12, 50304, 124475904),
      shape("small_B8T256", 8, 256, 512, 8, 4, 8192, 16935936)};
  return kShapes;
}

void add_operation_benchmarks(const StepShape& s) {
  add_embedding(s);
  add_norm(s);
  add_attention(s);
  add_loss(s);
  add_head(s);
  add_optimizer(s);
  add_elementwise(s);
  if (!s.of_case || s.expert_layers > 0) add_experts(s);
}

}  // namespace dettax
