#include "suites/kernels/ops_bench.h"

namespace dettax {
namespace {

struct Head {
  std::shared_ptr<std::vector<int32_t>> ids;
  std::shared_ptr<Cold> x, dx, w, dw, losses;

  explicit Head(const StepShape& s)
      : ids(zipf_ids(s)),
        x(cold(s.rows(), s.width)),
        dx(cold(s.rows(), s.width)),
        w(cold(s.vocabulary, s.width)),
        dw(cold(s.vocabulary, s.width)),
        losses(warm(1, s.rows())) {}
};

Work fused(CpuOps& ops, const StepShape& s, const SumOrder& sum) {
  const Head h(s);
  const int64_t chunk = fused_loss_chunk_rows(s.rows(), s.vocabulary, s.samples, sum.order);
  auto logits = warm(chunk, s.vocabulary);
  return {[=, &ops] {
    ops.fused_linear_cross_entropy({.losses = h.losses->next(),
                                    .dx = h.dx->next(),
                                    .dw = h.dw->next(),
                                    .x = h.x->next(),
                                    .w = h.w->next(),
                                    .targets = tensor(*h.ids),
                                    .logits = logits->next(),
                                    .vocabulary = s.vocabulary,
                                    .samples = s.samples,
                                    .sum = sum});
  }};
}

Work one_after_the_other(CpuOps& ops, const StepShape& s) {
  const Head h(s);
  auto logits = warm(s.rows(), s.vocabulary);
  return {[=, &ops] {
    LinearForward forward;
    forward.y = logits->next();
    forward.x = h.x->next();
    forward.w = h.w->next();
    ops.linear_forward(forward);
    ops.cross_entropy({.losses = h.losses->next(),
                       .logits = forward.y,
                       .targets = tensor(*h.ids),
                       .vocabulary = s.vocabulary});
    LinearBackwardInput input;
    input.dx = h.dx->next();
    input.dy = forward.y;
    input.w = forward.w;
    ops.linear_backward_input(input);
    LinearBackwardWeight weight;
    weight.dw = h.dw->next();
    weight.dy = forward.y;
    weight.x = forward.x;
    weight.samples = s.samples;
    ops.linear_backward_weight(weight);
  }};
}

}  // namespace

// The head and the loss, in chunks and one operation after the other.
void add_head(const StepShape& s) {
  const double flops =
      6.0 * static_cast<double>(s.rows() * s.width) * static_cast<double>(s.vocabulary);
  add_variants("head_fused/" + s.model, [=](CpuOps& ops, const SumOrder& sum) {
    Work work = fused(ops, s, sum);
    work.flops = flops;
    work.calls = StepCalls(s).ends;
    return work;
  });
  add_benchmark("head_separate/" + s.model + "/ordered", [=](CpuOps& ops, const SumOrder&) {
    Work work = one_after_the_other(ops, s);
    work.flops = flops;
    work.calls = StepCalls(s).ends;
    return work;
  });
}

}  // namespace dettax
