#include "suites/kernels/ops_bench.h"

namespace dettax {

void add_elementwise(const StepShape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  const int64_t inner = 8 * s.width / 3;
  add_benchmark("dropout/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{
        [=, &ops] { ops.dropout({.y = y->next(), .x = x->next(), .probability = 0.1, .key = {}}); },
        2 * bytes, 4 * s.layers + 2};
  });
  add_benchmark("swiglu_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), 2 * inner);
    auto y = cold(s.rows(), inner);
    return Work{[=, &ops] { ops.swiglu_forward({.y = y->next(), .x = x->next()}); },
                12 * s.rows() * inner, s.layers};
  });
  add_benchmark("swiglu_backward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), 2 * inner);
    auto dx = cold(s.rows(), 2 * inner);
    auto dy = cold(s.rows(), inner);
    return Work{
        [=, &ops] { ops.swiglu_backward({.dx = dx->next(), .dy = dy->next(), .x = x->next()}); },
        20 * s.rows() * inner, s.layers};
  });
  add_benchmark("rope/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto qkv = cold(s.rows(), 3 * s.width);
    return Work{[=, &ops] {
                  ops.rope({.qkv = qkv->next(),
                            .samples = s.samples,
                            .heads = s.heads,
                            .key_value_heads = s.heads});
                },
                4 * bytes, 2 * s.layers};
  });
  add_benchmark("add/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{[=, &ops] { ops.add(y->next(), x->next()); }, 3 * bytes};
  });
  add_benchmark("copy/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{[=, &ops] { ops.copy(y->next(), x->next()); }, 2 * bytes};
  });
}

}  // namespace dettax
