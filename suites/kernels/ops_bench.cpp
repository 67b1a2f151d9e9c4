// Every operation of the CPU but the products of linear layers, its variants side by side, in the
// shapes of the step benchmarks. Tensors are taken in turn from copies that together do not fit the
// caches, as in a step. `calls` is how often a step makes the call: calls times time is its share.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/base/random.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"

namespace dettax {
namespace {

constexpr int64_t kColdBytes = int64_t{64} << 20;

struct Shape {
  std::string model;
  int64_t samples, tokens, width, heads, layers, vocabulary, parameters;
  int64_t rows() const { return samples * tokens; }
};
const Shape kShapes[] = {{"gpt2_B4T64", 4, 64, 768, 12, 12, 50304, 124475904},
                         {"gpt2_B4T256", 4, 256, 768, 12, 12, 50304, 124475904},
                         {"small_B8T256", 8, 256, 512, 8, 4, 8192, 16935936}};

// A tensor of which next() gives another copy each time.
class Cold {
 public:
  Cold(int64_t rows, int64_t columns, uint32_t stream = 1, int64_t cold_bytes = kColdBytes)
      : rows_(rows), columns_(columns) {
    copies_ = std::max<int64_t>(1, cold_bytes / (rows * columns * 4));
    memory_ = allocate_pages(static_cast<size_t>(copies_ * rows * columns * 4));
    auto* data = static_cast<float*>(memory_.data());
    for (int64_t i = 0; i < copies_ * rows * columns; ++i) {
      const auto hash = static_cast<uint64_t>(i + stream) * 0x9E3779B97F4A7C15U;
      data[i] = static_cast<float>(hash >> 40U) * 0x1p-23f - 1.0f;
    }
  }
  Tensor next() {
    turn_ = (turn_ + 1) % copies_;
    return make_tensor(static_cast<float*>(memory_.data()) + turn_ * rows_ * columns_, DType::f32,
                       {rows_, columns_});
  }

 private:
  int64_t rows_, columns_, copies_ = 1, turn_ = 0;
  Buffer memory_;
};

// Ids whose logarithm is uniform: a Zipf distribution with exponent 1.
std::vector<int32_t> zipf_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    const double u = uniform(random_words({1, RandomPurpose::test, 0}, 0, i)[0]);
    ids[i] = static_cast<int32_t>(std::pow(static_cast<double>(vocabulary), u)) - 1;
  }
  return ids;
}
Tensor tensor(std::vector<int32_t>& ids) {
  return make_tensor(ids.data(), DType::i32, {static_cast<int64_t>(ids.size())});
}

// What a benchmark runs: one call, its bytes (read and written, each once) and floating-point
// operations, if these say more, and how many calls a step makes.
struct Work {
  std::function<void()> call;
  int64_t bytes = 0;
  int64_t calls = 1;
  double flops = 0;
};

struct Bench {
  Team team{static_cast<int>(std::thread::hardware_concurrency()), true};
  CpuOps ops{team};
};

void add_benchmark(const std::string& name, std::function<Work(CpuOps&)> make) {
  const auto body = [make = std::move(make)](benchmark::State& state) {
    Bench bench;
    const Work work = make(bench.ops);
    work.call();
    for ([[maybe_unused]] auto iteration : state) work.call();
    state.SetBytesProcessed(state.iterations() * work.bytes);
    state.counters["calls"] = static_cast<double>(work.calls);
    if (work.flops > 0) {
      state.counters["flops_per_second"] =
          benchmark::Counter(work.flops, benchmark::Counter::kIsIterationInvariantRate);
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

struct Variant {
  std::string name;
  SumOrder sum;
};
const Variant kVariants[] = {{"arrival_dynamic", {Order::arrival, true}},
                             {"arrival_static", {Order::arrival, false}},
                             {"ordered", {Order::ordered, false}},
                             {"invariant", {Order::invariant, false}}};

void add_embedding(const Shape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  add_benchmark("embedding_forward/" + s.model, [s, bytes](CpuOps& ops) {
    auto ids = std::make_shared<std::vector<int32_t>>(zipf_ids(s.rows(), s.vocabulary));
    auto table = std::make_shared<Cold>(s.vocabulary, s.width);
    auto positions = std::make_shared<Cold>(s.tokens, s.width);
    auto y = std::make_shared<Cold>(s.rows(), s.width);
    return Work{[=, &ops] {
                  ops.embedding_forward({.y = y->next(),
                                         .tokens = tensor(*ids),
                                         .table = table->next(),
                                         .position_table = positions->next(),
                                         .samples = s.samples});
                },
                2 * bytes};
  });
  auto variants = std::vector<Variant>(std::begin(kVariants), std::end(kVariants));
  variants.push_back({"generic", {}});
  for (const Variant& v : variants) {
    add_benchmark("embedding_backward/" + s.model + "/" + v.name, [s, v, bytes](CpuOps& ops) {
      auto ids = std::make_shared<std::vector<int32_t>>(zipf_ids(s.rows(), s.vocabulary));
      auto table = std::make_shared<Cold>(s.vocabulary, s.width);
      auto positions = std::make_shared<Cold>(s.tokens, s.width);
      auto dy = std::make_shared<Cold>(s.rows(), s.width);
      return Work{[=, &ops] {
                    ops.embedding_backward({.dtable = table->next(),
                                            .dposition_table = positions->next(),
                                            .dy = dy->next(),
                                            .tokens = tensor(*ids),
                                            .samples = s.samples,
                                            .sum = v.sum,
                                            .generic = v.name == "generic"});
                  },
                  3 * bytes};
    });
  }
}

void add_norm(const Shape& s) {
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    const std::string name = kind == Norm::layer ? "layer" : "rms";
    const bool layer = kind == Norm::layer;
    const int64_t bytes = 4 * s.rows() * s.width;
    const int64_t calls = 2 * s.layers + 1;
    add_benchmark(name + "_norm_forward/" + s.model, [=](CpuOps& ops) {
      auto x = std::make_shared<Cold>(s.rows(), s.width);
      auto y = std::make_shared<Cold>(s.rows(), s.width);
      auto rows = std::make_shared<Cold>(2, s.rows());
      auto parameters = std::make_shared<Cold>(1, s.width);
      return Work{[=, &ops] {
                    const auto each = [&] {
                      return make_tensor(rows->next().data, DType::f32, {s.rows()});
                    };
                    ops.norm_forward({.y = y->next(),
                                      .mean = layer ? each() : Tensor{},
                                      .rstd = each(),
                                      .x = x->next(),
                                      .gamma = parameters->next(),
                                      .beta = layer ? parameters->next() : Tensor{},
                                      .kind = kind});
                  },
                  2 * bytes, calls};
    });
    for (const Variant& v : kVariants) {
      add_benchmark(name + "_norm_backward/" + s.model + "/" + v.name, [=](CpuOps& ops) {
        auto x = std::make_shared<Cold>(s.rows(), s.width);
        auto dy = std::make_shared<Cold>(s.rows(), s.width);
        auto dx = std::make_shared<Cold>(s.rows(), s.width);
        auto rows = std::make_shared<Cold>(2, s.rows());
        auto parameters = std::make_shared<Cold>(1, s.width);
        return Work{[=, &ops] {
                      const auto each = [&] {
                        return make_tensor(rows->next().data, DType::f32, {s.rows()});
                      };
                      ops.norm_backward({.dx = dx->next(),
                                         .dgamma = parameters->next(),
                                         .dbeta = layer ? parameters->next() : Tensor{},
                                         .dy = dy->next(),
                                         .x = x->next(),
                                         .mean = layer ? each() : Tensor{},
                                         .rstd = each(),
                                         .gamma = parameters->next(),
                                         .kind = kind,
                                         .accumulate_dx = true,
                                         .samples = s.samples,
                                         .sum = v.sum});
                    },
                    4 * bytes, calls};
      });
    }
  }
}

// Products that causality leaves: half of the square and half of its diagonal.
double attention_flops(const Shape& s, int products) {
  return static_cast<double>(products) * static_cast<double>(s.samples * s.tokens) *
         static_cast<double>(s.tokens + 1) * static_cast<double>(s.width);
}

void add_attention(const Shape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  const double scale = 1 / std::sqrt(static_cast<double>(s.width / s.heads));
  add_benchmark("attention_forward/" + s.model, [=](CpuOps& ops) {
    auto qkv = std::make_shared<Cold>(s.rows(), 3 * s.width);
    auto out = std::make_shared<Cold>(s.rows(), s.width);
    auto sums = std::make_shared<Cold>(s.samples * s.heads, s.tokens);
    return Work{[=, &ops] {
                  ops.attention_forward({.out = out->next(),
                                         .log_sum_exp = sums->next(),
                                         .qkv = qkv->next(),
                                         .samples = s.samples,
                                         .heads = s.heads,
                                         .key_value_heads = s.heads,
                                         .scale = scale});
                },
                4 * bytes, s.layers, attention_flops(s, 2)};
  });
  for (const Variant& v : kVariants) {
    if (v.sum.order == Order::invariant) continue;  // the same as ordered
    add_benchmark("attention_backward/" + s.model + "/" + v.name, [=](CpuOps& ops) {
      auto qkv = std::make_shared<Cold>(s.rows(), 3 * s.width);
      auto dqkv = std::make_shared<Cold>(s.rows(), 3 * s.width);
      auto out = std::make_shared<Cold>(s.rows(), s.width);
      auto dout = std::make_shared<Cold>(s.rows(), s.width);
      auto sums = std::make_shared<Cold>(s.samples * s.heads, s.tokens, 1, 0);
      ops.attention_forward({.out = out->next(),
                             .log_sum_exp = sums->next(),
                             .qkv = qkv->next(),
                             .samples = s.samples,
                             .heads = s.heads,
                             .key_value_heads = s.heads,
                             .scale = scale});
      return Work{[=, &ops] {
                    ops.attention_backward({.dqkv = dqkv->next(),
                                            .dout = dout->next(),
                                            .out = out->next(),
                                            .log_sum_exp = sums->next(),
                                            .qkv = qkv->next(),
                                            .samples = s.samples,
                                            .heads = s.heads,
                                            .key_value_heads = s.heads,
                                            .scale = scale,
                                            .sum = v.sum});
                  },
                  8 * bytes, s.layers, attention_flops(s, 5)};
    });
  }
}

void add_loss(const Shape& s) {
  for (const bool generic : {false, true}) {
    add_benchmark(
        "cross_entropy/" + s.model + (generic ? "/generic" : "/purpose_built"), [=](CpuOps& ops) {
          auto ids = std::make_shared<std::vector<int32_t>>(zipf_ids(s.rows(), s.vocabulary));
          auto logits = std::make_shared<Cold>(s.rows(), s.vocabulary);
          auto losses = std::make_shared<Cold>(1, s.rows(), 1, 0);
          return Work{[=, &ops] {
                        ops.cross_entropy({.losses = losses->next(),
                                           .logits = logits->next(),
                                           .targets = tensor(*ids),
                                           .vocabulary = s.vocabulary,
                                           .gradient_scale = 1,
                                           .generic = generic});
                      },
                      8 * s.rows() * s.vocabulary};
        });
  }
  for (const Variant& v : kVariants) {
    add_benchmark("sum_scalar/" + s.model + "/" + v.name, [=](CpuOps& ops) {
      auto losses = std::make_shared<Cold>(1, s.rows(), 1, 0);
      auto result = std::make_shared<Cold>(1, 1, 1, 0);
      return Work{[=, &ops] {
                    ops.sum_scalar({.result = result->next(),
                                    .values = losses->next(),
                                    .samples = s.samples,
                                    .sum = v.sum});
                  },
                  4 * s.rows()};
    });
  }
}

// The head and the loss, in chunks and one operation after the other.
void add_head(const Shape& s) {
  const double flops =
      6.0 * static_cast<double>(s.rows() * s.width) * static_cast<double>(s.vocabulary);
  for (const Variant& v : kVariants) {
    add_benchmark("head_fused/" + s.model + "/" + v.name, [=](CpuOps& ops) {
      auto ids = std::make_shared<std::vector<int32_t>>(zipf_ids(s.rows(), s.vocabulary));
      auto x = std::make_shared<Cold>(s.rows(), s.width);
      auto dx = std::make_shared<Cold>(s.rows(), s.width);
      auto w = std::make_shared<Cold>(s.vocabulary, s.width);
      auto dw = std::make_shared<Cold>(s.vocabulary, s.width);
      auto losses = std::make_shared<Cold>(1, s.rows(), 1, 0);
      const int64_t chunk = fused_loss_chunk_rows(s.rows(), s.vocabulary, s.samples, v.sum.order);
      auto logits = std::make_shared<Cold>(chunk, s.vocabulary, 1, 0);
      return Work{[=, &ops] {
                    ops.fused_linear_cross_entropy({.losses = losses->next(),
                                                    .dx = dx->next(),
                                                    .dw = dw->next(),
                                                    .x = x->next(),
                                                    .w = w->next(),
                                                    .targets = tensor(*ids),
                                                    .logits = logits->next(),
                                                    .vocabulary = s.vocabulary,
                                                    .samples = s.samples,
                                                    .sum = v.sum});
                  },
                  0, 1, flops};
    });
  }
  add_benchmark("head_separate/" + s.model + "/ordered", [=](CpuOps& ops) {
    auto ids = std::make_shared<std::vector<int32_t>>(zipf_ids(s.rows(), s.vocabulary));
    auto x = std::make_shared<Cold>(s.rows(), s.width);
    auto dx = std::make_shared<Cold>(s.rows(), s.width);
    auto w = std::make_shared<Cold>(s.vocabulary, s.width);
    auto dw = std::make_shared<Cold>(s.vocabulary, s.width);
    auto losses = std::make_shared<Cold>(1, s.rows(), 1, 0);
    auto logits = std::make_shared<Cold>(s.rows(), s.vocabulary, 1, 0);
    return Work{[=, &ops] {
                  LinearForward forward;
                  forward.y = logits->next();
                  forward.x = x->next();
                  forward.w = w->next();
                  ops.linear_forward(forward);
                  ops.cross_entropy({.losses = losses->next(),
                                     .logits = forward.y,
                                     .targets = tensor(*ids),
                                     .vocabulary = s.vocabulary});
                  LinearBackwardInput input;
                  input.dx = dx->next();
                  input.dy = forward.y;
                  input.w = forward.w;
                  ops.linear_backward_input(input);
                  LinearBackwardWeight weight;
                  weight.dw = dw->next();
                  weight.dy = forward.y;
                  weight.x = forward.x;
                  weight.samples = s.samples;
                  ops.linear_backward_weight(weight);
                },
                0, 1, flops};
  });
}

void add_optimizer(const Shape& s) {
  add_benchmark("adamw/" + s.model, [=](CpuOps& ops) {
    auto w = std::make_shared<Cold>(1, s.parameters);
    auto g = std::make_shared<Cold>(1, s.parameters);
    auto m = std::make_shared<Cold>(1, s.parameters);
    auto v = std::make_shared<Cold>(1, s.parameters);
    ops.fill_bytes(v->next(), 0);
    return Work{[=, &ops] {
                  ops.adamw({.weights = w->next(),
                             .gradients = g->next(),
                             .first_moment = m->next(),
                             .second_moment = v->next(),
                             .learning_rate = 1e-4,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .epsilon = 1e-8,
                             .weight_decay = 0.1});
                },
                28 * s.parameters};
  });
  for (const Variant& v : kVariants) {
    add_benchmark("sum_of_squares/" + s.model + "/" + v.name, [=](CpuOps& ops) {
      auto g = std::make_shared<Cold>(1, s.parameters);
      auto result = std::make_shared<Cold>(1, 1, 1, 0);
      return Work{
          [=, &ops] {
            ops.sum_of_squares({.result = result->next(), .values = g->next(), .sum = v.sum});
          },
          4 * s.parameters};
    });
  }
  add_benchmark("fill_bytes/" + s.model, [=](CpuOps& ops) {
    auto g = std::make_shared<Cold>(1, s.parameters);
    return Work{[=, &ops] { ops.fill_bytes(g->next(), 0); }, 4 * s.parameters};
  });
}

void add_elementwise(const Shape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  const int64_t inner = 8 * s.width / 3;
  add_benchmark("dropout/" + s.model, [=](CpuOps& ops) {
    auto x = std::make_shared<Cold>(s.rows(), s.width);
    auto y = std::make_shared<Cold>(s.rows(), s.width);
    return Work{
        [=, &ops] { ops.dropout({.y = y->next(), .x = x->next(), .probability = 0.1, .key = {}}); },
        2 * bytes, 4 * s.layers + 2};
  });
  add_benchmark("swiglu_forward/" + s.model, [=](CpuOps& ops) {
    auto x = std::make_shared<Cold>(s.rows(), 2 * inner);
    auto y = std::make_shared<Cold>(s.rows(), inner);
    return Work{[=, &ops] { ops.swiglu_forward({.y = y->next(), .x = x->next()}); },
                12 * s.rows() * inner, s.layers};
  });
  add_benchmark("swiglu_backward/" + s.model, [=](CpuOps& ops) {
    auto x = std::make_shared<Cold>(s.rows(), 2 * inner);
    auto dx = std::make_shared<Cold>(s.rows(), 2 * inner);
    auto dy = std::make_shared<Cold>(s.rows(), inner);
    return Work{
        [=, &ops] { ops.swiglu_backward({.dx = dx->next(), .dy = dy->next(), .x = x->next()}); },
        20 * s.rows() * inner, s.layers};
  });
  add_benchmark("rope/" + s.model, [=](CpuOps& ops) {
    auto qkv = std::make_shared<Cold>(s.rows(), 3 * s.width);
    return Work{[=, &ops] {
                  ops.rope({.qkv = qkv->next(),
                            .samples = s.samples,
                            .heads = s.heads,
                            .key_value_heads = s.heads});
                },
                4 * bytes, 2 * s.layers};
  });
  add_benchmark("add/" + s.model, [=](CpuOps& ops) {
    auto x = std::make_shared<Cold>(s.rows(), s.width);
    auto y = std::make_shared<Cold>(s.rows(), s.width);
    return Work{[=, &ops] { ops.add(y->next(), x->next()); }, 3 * bytes};
  });
  add_benchmark("copy/" + s.model, [=](CpuOps& ops) {
    auto x = std::make_shared<Cold>(s.rows(), s.width);
    auto y = std::make_shared<Cold>(s.rows(), s.width);
    return Work{[=, &ops] { ops.copy(y->next(), x->next()); }, 2 * bytes};
  });
}

const bool kRegistered = [] {
  for (const Shape& s : kShapes) {
    add_embedding(s);
    add_norm(s);
    add_attention(s);
    add_loss(s);
    add_head(s);
    add_optimizer(s);
    add_elementwise(s);
  }
  return true;
}();

}  // namespace
}  // namespace dettax
