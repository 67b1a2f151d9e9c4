#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

// One value a row.
Tensor statistics(Cold& memory, const StepShape& s) {
  return make_tensor(memory.next().data, DType::f32, {s.rows()});
}

void add_forward(const StepShape& s, Norm kind, const std::string& name) {
  const bool layer = kind == Norm::layer;
  add_benchmark(name + "_forward/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto x = cold(s.rows(), s.width);
    auto y = cold(s.rows(), s.width);
    auto rows = cold(2, s.rows());
    auto parameters = cold(1, s.width);
    return Work{[=, &ops] {
                  ops.norm_forward({.y = y->next(),
                                    .mean = layer ? statistics(*rows, s) : Tensor{},
                                    .rstd = statistics(*rows, s),
                                    .x = x->next(),
                                    .gamma = parameters->next(),
                                    .beta = layer ? parameters->next() : Tensor{},
                                    .kind = kind});
                },
                8 * s.rows() * s.width, StepCalls(s).norm_forward};
  });
}

void add_backward(const StepShape& s, Norm kind, const std::string& name) {
  const bool layer = kind == Norm::layer;
  add_variants(name + "_backward/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto x = cold(s.rows(), s.width);
    auto dy = cold(s.rows(), s.width);
    auto dx = cold(s.rows(), s.width);
    auto rows = cold(2, s.rows());
    auto parameters = cold(1, s.width);
    return Work{[=, &ops] {
                  ops.norm_backward({.dx = dx->next(),
                                     .dgamma = parameters->next(),
                                     .dbeta = layer ? parameters->next() : Tensor{},
                                     .dy = dy->next(),
                                     .x = x->next(),
                                     .mean = layer ? statistics(*rows, s) : Tensor{},
                                     .rstd = statistics(*rows, s),
                                     .gamma = parameters->next(),
                                     .kind = kind,
                                     .accumulate_dx = true,
                                     .samples = s.samples,
                                     .sum = sum});
                },
                16 * s.rows() * s.width, StepCalls(s).norm_backward};
  });
}

}  // namespace

void add_norm(const StepShape& s) {
  for (const Norm kind : {Norm::layer, Norm::rms}) {
    if (s.of_case && s.rms_norm != (kind == Norm::rms)) continue;
    const std::string name = kind == Norm::layer ? "layer_norm" : "rms_norm";
    add_forward(s, kind, name);
    add_backward(s, kind, name);
  }
}

}  // namespace dettax
