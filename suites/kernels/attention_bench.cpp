#include <cmath>

#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

// Products that causality leaves: half of the square and half of its diagonal.
double attention_flops(const StepShape& s, int products) {
  return static_cast<double>(products) * static_cast<double>(s.samples * s.tokens) *
         static_cast<double>(s.tokens + 1) * static_cast<double>(s.width);
}

}  // namespace

void add_attention(const StepShape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  const int64_t head_width = s.width / s.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  add_benchmark("attention_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto qkv = cold(s.rows(), 3 * s.width);
    auto out = cold(s.rows(), s.width);
    auto sums = cold(s.samples * s.heads, s.tokens);
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
  add_arrival_and_ordered("attention_backward/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto qkv = cold(s.rows(), 3 * s.width);
    auto dqkv = cold(s.rows(), 3 * s.width);
    auto out = cold(s.rows(), s.width);
    auto dout = cold(s.rows(), s.width);
    auto sums = warm(s.samples * s.heads, s.tokens);
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
                                          .sum = sum});
                },
                8 * bytes, s.layers, attention_flops(s, 5)};
  });
}

}  // namespace dettax
