#include "suites/kernels/ops_bench.h"

namespace dettax {

// The head and the loss, in chunks and one operation after the other.
void add_head(const StepShape& s) {
  const double flops =
      6.0 * static_cast<double>(s.rows() * s.width) * static_cast<double>(s.vocabulary);
  add_variants("head_fused/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    auto ids = zipf_ids(s);
    auto x = cold(s.rows(), s.width);
    auto dx = cold(s.rows(), s.width);
    auto w = cold(s.vocabulary, s.width);
    auto dw = cold(s.vocabulary, s.width);
    auto losses = warm(1, s.rows());
    const int64_t chunk = fused_loss_chunk_rows(s.rows(), s.vocabulary, s.samples, sum.order);
    auto logits = warm(chunk, s.vocabulary);
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
                                                  .sum = sum});
                },
                0, 1, flops};
  });
  add_benchmark("head_separate/" + s.model + "/ordered", [=](CpuOps& ops, const SumOrder&) {
    auto ids = zipf_ids(s);
    auto x = cold(s.rows(), s.width);
    auto dx = cold(s.rows(), s.width);
    auto w = cold(s.vocabulary, s.width);
    auto dw = cold(s.vocabulary, s.width);
    auto losses = warm(1, s.rows());
    auto logits = warm(s.rows(), s.vocabulary);
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

}  // namespace dettax
