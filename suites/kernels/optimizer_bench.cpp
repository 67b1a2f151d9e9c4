#include "suites/kernels/ops_bench.h"

namespace dettax {

void add_optimizer(const StepShape& s) {
  add_benchmark("adamw/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto w = cold(1, s.parameters);
    auto g = cold(1, s.parameters);
    auto m = cold(1, s.parameters);
    auto v = cold(1, s.parameters);
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
                28 * s.parameters, StepCalls(s).once};
  });
  add_variants("sum_of_squares/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto g = cold(1, s.parameters);
    auto result = warm(1, 1);
    return Work{[=, &ops] {
                  ops.sum_of_squares({.result = result->next(), .values = g->next(), .sum = sum});
                },
                4 * s.parameters, StepCalls(s).once};
  });
  if (s.of_case) return;  // no step fills as many
  add_benchmark("fill_bytes/" + s.model, [=](CpuOps& ops, const SumOrder&) {
    auto g = cold(1, s.parameters);
    return Work{[=, &ops] { ops.fill_bytes(g->next(), 0); }, 4 * s.parameters};
  });
}

}  // namespace dettax
