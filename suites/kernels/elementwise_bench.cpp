#include "suites/kernels/ops_bench.h"

namespace dettax {

namespace {

void add_dropout(const StepShape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  const StepCalls calls(s);
  add_benchmark("dropout/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{
        [=, &ops] { ops.dropout({.y = y->next(), .x = x->next(), .probability = 0.1, .key = {}}); },
        2 * bytes, calls.dropout};
  });
  add_benchmark("add/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{[=, &ops] { ops.add(y->next(), x->next()); }, 3 * bytes, calls.add};
  });
}

void add_swiglu(const StepShape& s) {
  const int64_t inner = s.inner_width();
  const StepCalls calls(s);
  add_benchmark("swiglu_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), 2 * inner);
    auto y = cold(s.rows(), inner);
    return Work{[=, &ops] { ops.swiglu_forward({.y = y->next(), .x = x->next()}); },
                12 * s.rows() * inner, calls.swiglu_forward};
  });
  add_benchmark("swiglu_backward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), 2 * inner);
    auto dx = cold(s.rows(), 2 * inner);
    auto dy = cold(s.rows(), inner);
    return Work{
        [=, &ops] { ops.swiglu_backward({.dx = dx->next(), .dy = dy->next(), .x = x->next()}); },
        20 * s.rows() * inner, calls.swiglu_backward};
  });
}

void add_rope(const StepShape& s) {
  add_benchmark("rope/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto qkv = cold(s.rows(), s.qkv_width());
    return Work{[=, &ops] {
                  ops.rope({.qkv = qkv->next(),
                            .samples = s.samples,
                            .heads = s.heads,
                            .key_value_heads = s.key_heads()});
                },
                8 * s.rows() * (s.attention_width() + s.key_heads() * s.head_columns()),
                StepCalls(s).rope};
  });
}

void add_copy(const StepShape& s) {
  const int64_t bytes = 4 * s.rows() * s.width;
  add_benchmark("copy/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    return Work{[=, &ops] { ops.copy(y->next(), x->next()); }, 2 * bytes};
  });
}

}  // namespace

void add_elementwise(const StepShape& s) {
  const StepCalls calls(s);
  if (calls.dropout > 0) add_dropout(s);
  if (calls.swiglu_forward > 0) add_swiglu(s);
  if (calls.rope > 0) add_rope(s);
  if (!s.of_case) add_copy(s);
}

}  // namespace dettax
