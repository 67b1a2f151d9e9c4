#include "suites/kernels/ops_bench.h"

namespace dettax {

void add_loss(const StepShape& s) {
  for (const bool generic : {false, true}) {
    add_benchmark("cross_entropy/" + s.model + (generic ? "/generic" : "/purpose_built"),
                  [=](CpuOps& ops, const SumOrder&) {
                    auto ids = zipf_ids(s);
                    auto logits = cold(s.rows(), s.vocabulary);
                    auto losses = warm(1, s.rows());
                    return Work{[=, &ops] {
                                  ops.cross_entropy({.losses = losses->next(),
                                                     .logits = logits->next(),
                                                     .targets = tensor(*ids),
                                                     .vocabulary = s.vocabulary,
                                                     .gradient_scale = 1,
                                                     .generic = generic});
                                },
                                8 * s.rows() * s.vocabulary, StepCalls(s).ends};
                  });
  }
  add_variants("sum_scalar/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto losses = warm(1, s.rows());
    auto result = warm(1, 1);
    return Work{[=, &ops] {
                  ops.sum_scalar({.result = result->next(),
                                  .values = losses->next(),
                                  .samples = s.samples,
                                  .sum = sum});
                },
                4 * s.rows(), StepCalls(s).ends};
  });
}

}  // namespace dettax
