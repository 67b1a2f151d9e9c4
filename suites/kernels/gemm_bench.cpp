// The three products of a linear layer, in the shapes of the step benchmarks, beside a BLAS and the
// FMA peak: in each iteration all of them run one after the other, so that they meet the same
// machine. Weights and their gradients come from memory as in a step: copies of them are taken in
// turn.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include "harness/device/cpu/gemm.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"
#include "suites/kernels/benches.h"
#include "suites/kernels/fma_peak.h"
#include "suites/kernels/roofline.h"

namespace dettax {
namespace {

constexpr int64_t kColdBytes = int64_t{96} << 20;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // of CBLAS

// cblas_sgemm of a BLAS found at run time; the benchmark has no column for it where there is none.
class Blas {
 public:
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c,
                         int ldc);
  explicit Blas(int threads) {
    // Its idle threads poll, by default longer than the pause before the next measurement.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody reads the environment meanwhile
    setenv("GOMP_SPINCOUNT", "20000", 0);
    for (const char* name :
         {"/usr/lib/x86_64-linux-gnu/blis-openmp/libblis.so.4", "libblis.so.4"}) {
      library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library_ != nullptr) break;
    }
    if (library_ == nullptr) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library_, "cblas_sgemm"));
    using SetThreads = void (*)(int64_t);
    const auto set = reinterpret_cast<SetThreads>(dlsym(library_, "bli_thread_set_num_threads"));
    if (set != nullptr) set(threads);
  }
  // Starts its threads, so that a measured call does not have to.
  void wake() const {
    constexpr int kWidth = 128;
    const std::vector<float> a(size_t{kWidth} * kWidth);
    std::vector<float> c(a.size());
    sgemm(kRowMajor, kNoTrans, kNoTrans, kWidth, kWidth, kWidth, 1, a.data(), kWidth, a.data(),
          kWidth, 0, c.data(), kWidth);
  }
  Sgemm sgemm = nullptr;

 private:
  void* library_ = nullptr;
};
struct Shape {
  std::string model;
  int64_t tokens, inputs, outputs, samples;
  int64_t calls = 0;  // a step; 0: not told
};

// One layer's operands, as often as it takes to make the weights cold.
struct Layer {
  explicit Layer(const Shape& s)
      : shape(s),
        copies(std::max<int64_t>(1, kColdBytes / (s.inputs * s.outputs * 4))),
        x(allocate_pages(bytes(s.tokens * s.inputs))),
        dx(allocate_pages(bytes(s.tokens * s.inputs))),
        y(allocate_pages(bytes(s.tokens * s.outputs))),
        w(allocate_pages(bytes(s.inputs * s.outputs * copies))),
        dw(allocate_pages(bytes(s.inputs * s.outputs * copies))) {
    for (Buffer* b : {&x, &dx, &y, &w, &dw}) {
      for (size_t i = 0; i < b->bytes() / 4; ++i) {
        data(*b)[i] = static_cast<float>(static_cast<double>(i * 2654435761U % 1024) / 512 - 1);
      }
    }
  }
  static size_t bytes(int64_t floats) { return static_cast<size_t>(floats) * 4; }
  static float* data(const Buffer& b) { return static_cast<float*>(b.data()); }
  float* weight(int64_t turn) const {
    return data(w) + turn % copies * shape.inputs * shape.outputs;
  }
  float* gradient(int64_t turn) const {
    return data(dw) + turn % copies * shape.inputs * shape.outputs;
  }

  Shape shape;
  int64_t copies;
  Buffer x, dx, y, w, dw;
};

enum class Product { forward, input_gradient, weight_gradient };

struct Runner {
  Team& team;
  GemmState& state;
  const Layer& layer;
  Product product;
  Order order = Order::ordered;
  bool dynamic = false;

  void ours(int64_t turn) const {
    const auto& [model, tokens, inputs, outputs, samples, calls] = layer.shape;
    float* x = Layer::data(layer.x);
    float* y = Layer::data(layer.y);
    float* w = layer.weight(turn);
    if (product == Product::forward) {
      gemm(team, state,
           {.a = {x, tokens, inputs, 1},
            .b = {w, outputs, inputs, 1},
            .steps = inputs,
            .c = y,
            .c_stride = outputs,
            .finish = {},
            .dynamic = dynamic});
    } else if (product == Product::input_gradient) {
      gemm(team, state,
           {.a = {y, tokens, outputs, 1},
            .b = {w, inputs, 1, inputs},
            .steps = outputs,
            .c = Layer::data(layer.dx),
            .c_stride = inputs,
            .finish = {},
            .dynamic = dynamic});
    } else {
      weight_gradient(team, state,
                      {.a = {y, outputs, 1, outputs},
                       .b = {x, inputs, 1, inputs},
                       .tokens = tokens,
                       .samples = samples,
                       .c = layer.gradient(turn),
                       .c_stride = inputs,
                       .line_sums = nullptr,
                       .accumulate = true,
                       .order = order,
                       .dynamic = dynamic});
    }
  }

  // A library's OpenMP threads go on polling for some milliseconds and would take a core from whoever comes next.
  void settle() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    team.run([](int) {});
  }

  void blas(const Blas& library, int64_t turn) const {
    const int t = static_cast<int>(layer.shape.tokens), in = static_cast<int>(layer.shape.inputs),
              out = static_cast<int>(layer.shape.outputs);
    float* x = Layer::data(layer.x);
    float* y = Layer::data(layer.y);
    float* w = layer.weight(turn);
    if (product == Product::forward) {
      library.sgemm(kRowMajor, kNoTrans, kTrans, t, out, in, 1, x, in, w, in, 0, y, out);
    } else if (product == Product::input_gradient) {
      library.sgemm(kRowMajor, kNoTrans, kNoTrans, t, in, out, 1, y, out, w, in, 0,
                    Layer::data(layer.dx), in);
    } else {
      library.sgemm(kRowMajor, kTrans, kNoTrans, out, in, t, 1, y, out, x, in, 1,
                    layer.gradient(turn), in);
    }
  }
};

// One call's operations, and its matrices read and written once.
double flops_of(const Shape& s) {
  return 2.0 * static_cast<double>(s.tokens * s.inputs * s.outputs);
}
double bytes_of(const Shape& s) {
  return 4.0 *
         static_cast<double>(s.tokens * s.inputs + s.tokens * s.outputs + s.inputs * s.outputs);
}

void report(benchmark::State& state, const Shape& shape, double seconds_of_one) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes_of(shape)));
  state.counters["flops_per_second"] = flops_of(shape) / seconds_of_one;
  state.counters["of_roofline_ratio"] =
      least_seconds(flops_of(shape), bytes_of(shape)) / seconds_of_one;
  if (shape.calls > 0) state.counters["calls"] = static_cast<double>(shape.calls);
}

// Alone, for a shape that was asked for.
void measure_alone(benchmark::State& state, const Shape& shape, Product product, Order order,
                   bool dynamic) {
  const auto threads = static_cast<int>(std::thread::hardware_concurrency());
  Team team(threads, true);
  GemmState scratch(threads);
  const Layer layer(shape);
  const Runner runner{team, scratch, layer, product, order, dynamic};
  int64_t turn = 0;
  for (; turn < 3; ++turn) runner.ours(turn);
  std::vector<double> ours;
  for (auto _ : state) {
    ours.push_back(seconds([&] { runner.ours(++turn); }));
    state.SetIterationTime(ours.back());
  }
  report(state, shape, median(ours));
}

void measure(benchmark::State& state, const Shape& shape, Product product, Order order,
             bool dynamic) {
  const int threads = 2;
  Team team(threads, true);
  GemmState scratch(threads);
  const Layer layer(shape);
  const Blas library(threads);
  const Runner runner{team, scratch, layer, product, order, dynamic};
  const double flops = flops_of(shape);
  std::vector<double> ours, theirs, peaks;
  for (int64_t warm = 0; warm < 3; ++warm) runner.ours(warm);
  int64_t turn = 0;
  for (auto _ : state) {
    ++turn;
    runner.settle();
    ours.push_back(seconds([&] { runner.ours(2 * turn); }));
    state.SetIterationTime(ours.back());
    peaks.push_back(peak_flops_per_second(team));
    if (library.sgemm != nullptr) {
      library.wake();
      theirs.push_back(seconds([&] { runner.blas(library, 2 * turn + 1); }));
    }
  }
  report(state, shape, median(ours));
  const double rate = flops / median(ours);
  state.counters["GFLOP/s"] = rate / 1e9;
  state.counters["of_peak_ratio"] = rate / median(peaks);
  if (library.sgemm != nullptr) {
    state.counters["blis_GFLOP/s"] = flops / median(theirs) / 1e9;
    state.counters["of_blis_ratio"] = median(theirs) / median(ours);
  }
}

const Shape kShapes[] = {
    {"gpt2", 256, 768, 768, 4},    {"gpt2", 256, 768, 2304, 4},   {"gpt2", 256, 768, 3072, 4},
    {"gpt2", 256, 3072, 768, 4},   {"gpt2", 256, 768, 50304, 4},  {"gpt2", 1024, 768, 768, 4},
    {"gpt2", 1024, 768, 2304, 4},  {"gpt2", 1024, 768, 3072, 4},  {"gpt2", 1024, 3072, 768, 4},
    {"gpt2", 1024, 768, 50304, 4}, {"small", 2048, 512, 512, 8},  {"small", 2048, 512, 1536, 8},
    {"small", 2048, 512, 2048, 8}, {"small", 2048, 2048, 512, 8}, {"small", 2048, 512, 8192, 8},
};

struct Variant {
  const char* name;
  Product product;
  Order order;
  bool dynamic;
};
constexpr Variant kVariants[] = {
    {"forward/static", Product::forward, Order::ordered, false},
    {"forward/dynamic", Product::forward, Order::ordered, true},
    {"input_gradient/static", Product::input_gradient, Order::ordered, false},
    {"input_gradient/dynamic", Product::input_gradient, Order::ordered, true},
    {"weight_gradient/arrival", Product::weight_gradient, Order::arrival, true},
    {"weight_gradient/ordered", Product::weight_gradient, Order::ordered, false},
    {"weight_gradient/ordered_dynamic", Product::weight_gradient, Order::ordered, true},
    {"weight_gradient/invariant", Product::weight_gradient, Order::invariant, false},
};

std::string name_of(const Variant& v, const std::string& model, const Shape& s) {
  return std::string("linear/") + v.name + model + "/tokens:" + std::to_string(s.tokens) +
         "/inputs:" + std::to_string(s.inputs) + "/outputs:" + std::to_string(s.outputs);
}

}  // namespace

void add_linear_benchmarks(const StepShape& step) {
  for (const Variant& v : kVariants) {
    for (const LinearCalls& one : linear_calls(step)) {
      const Shape s{step.model,   step.rows(),
                    one.inputs,   one.outputs,
                    step.samples, v.product == Product::forward ? one.forward : one.backward};
      benchmark::RegisterBenchmark(name_of(v, "/" + s.model, s).c_str(),
                                   [s, v](benchmark::State& state) {
                                     measure_alone(state, s, v.product, v.order, v.dynamic);
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

void add_linear_benchmarks() {
  for (const Variant& v : kVariants) {
    for (const Shape& s : kShapes) {
      const std::string name = name_of(v, "/model:" + s.model, s);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [s, v](benchmark::State& state) { measure(state, s, v.product, v.order, v.dynamic); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->MinTime(0.2);
    }
  }
}

}  // namespace dettax
