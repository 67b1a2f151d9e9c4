#include <algorithm>

#include "harness/train/context_parallel.h"
#include "harness/train/layer.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

Norm kind_of(const Model& model) {
  return model.norm == NormKind::layer_norm ? Norm::layer : Norm::rms;
}

}  // namespace

void norm_forward(StepContext& c, Op op, const NormParameters& p, const Tensor& x,
                  const NormTensors& out) {
  c.fresh(out.y);
  c.fresh(out.mean);
  c.fresh(out.rstd);
  c.begin(op);
  c.ops.norm_forward({out.y, out.mean, out.rstd, x, c.value(p.gamma), c.value(p.beta),
                      kind_of(c.model), c.model.norm_epsilon});
  c.output("y", out.y);
  c.show("mean", out.mean);
  c.show("rstd", out.rstd);
}

void norm_backward(StepContext& c, Op op, const NormParameters& p, const Tensor& x,
                   const NormTensors& kept, bool accumulate_dx) {
  const Activations& b = c.buffers;
  if (!accumulate_dx) c.fresh(b.d_residual);
  c.begin(op);
  NormBackward call;
  call.dx = b.d_residual;
  call.dgamma = c.gradient(p.gamma);
  call.dbeta = c.gradient(p.beta);
  call.dy = b.d_norm;
  call.x = x;
  call.mean = kept.mean;
  call.rstd = kept.rstd;
  call.gamma = c.value(p.gamma);
  call.kind = kind_of(c.model);
  call.accumulate_dx = accumulate_dx;
  call.accumulate_parameters = c.accumulate;
  call.samples = sequence_parallel(c) ? c.segments : c.samples;
  call.sum = c.sum(c.knobs.norm);
  c.ops.norm_backward(call);
  c.output("dx", b.d_residual);
  c.show_gradient(p.gamma);
  c.show_gradient(p.beta);
}

void dropout(StepContext& c, Op op, uint32_t place, const Tensor& y, const Tensor& x) {
  c.begin(op);
  Dropout call;
  call.probability = c.model.dropout;
  call.key = {c.seed, RandomPurpose::dropout, place};
  call.step = c.step;
  c.probe.fact("random.position before", c.seed, place, c.step,
               token_run(c, own_rows(c, 0).whole).whole);
  for (int64_t s = 0; s < c.segments; ++s) {
    const RowRange rows = own_rows(c, s);
    for (int64_t done = 0; done < rows.count;) {
      const TokenRun run = token_run(c, rows.whole + done);
      const int64_t count = std::min(run.count, rows.count - done);
      call.y = rows_of(y, rows.here + done, count);
      call.x = rows_of(x, rows.here + done, count);
      call.first_element = static_cast<uint64_t>(run.whole * c.model.width);
      c.ops.dropout(call);
      done += count;
    }
  }
  c.output("y", y);
}

}  // namespace dettax
