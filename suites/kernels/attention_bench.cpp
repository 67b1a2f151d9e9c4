#include <cmath>

#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

double score_scale(const StepShape& s) {
  return 1 / std::sqrt(static_cast<double>(s.head_columns()));
}

// Products that causality leaves: half of the square and half of its diagonal.
double attention_flops(const StepShape& s, int products) {
  return static_cast<double>(products) * static_cast<double>(s.samples * s.tokens) *
         static_cast<double>(s.tokens + 1) * static_cast<double>(s.attention_width());
}

struct Forward {
  std::shared_ptr<Cold> qkv, out, sums;

  explicit Forward(const StepShape& s)
      : qkv(cold(s.rows(), s.qkv_width())),
        out(cold(s.rows(), s.attention_width())),
        sums(warm(s.samples * s.heads, s.tokens)) {}
  void run(CpuOps& ops, const StepShape& s) const {
    ops.attention_forward({.out = out->next(),
                           .log_sum_exp = sums->next(),
                           .qkv = qkv->next(),
                           .samples = s.samples,
                           .heads = s.heads,
                           .key_value_heads = s.key_heads(),
                           .scale = score_scale(s)});
  }
};

}  // namespace

void add_attention(const StepShape& s) {
  const StepCalls calls(s);
  const int64_t bytes = 4 * s.rows() * (s.qkv_width() + s.attention_width());
  add_benchmark("attention_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    const Forward forward(s);
    return Work{[=, &ops] { forward.run(ops, s); }, bytes, calls.attention_forward,
                attention_flops(s, 2)};
  });
  add_arrival_and_ordered("attention_backward/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    const Forward forward(s);
    forward.run(ops, s);
    auto dqkv = cold(s.rows(), s.qkv_width());
    auto dout = cold(s.rows(), s.attention_width());
    return Work{[=, &ops] {
                  ops.attention_backward({.dqkv = dqkv->next(),
                                          .dout = dout->next(),
                                          .out = forward.out->next(),
                                          .log_sum_exp = forward.sums->next(),
                                          .qkv = forward.qkv->next(),
                                          .samples = s.samples,
                                          .heads = s.heads,
                                          .key_value_heads = s.key_heads(),
                                          .scale = score_scale(s),
                                          .sum = sum});
                },
                2 * bytes, calls.attention_backward, attention_flops(s, 5)};
  });
}

}  // namespace dettax
