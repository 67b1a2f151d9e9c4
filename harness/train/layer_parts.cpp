#include "harness/train/layer.h"

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
  c.show("y", out.y);
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
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.norm);
  c.ops.norm_backward(call);
  c.show("dx", b.d_residual);
  c.show_gradient(p.gamma);
  c.show_gradient(p.beta);
}

void dropout(StepContext& c, Op op, uint32_t place, const Tensor& y, const Tensor& x) {
  c.begin(op);
  Dropout call;
  call.y = y;
  call.x = x;
  call.probability = c.model.dropout;
  call.key = {c.seed, RandomPurpose::dropout, place};
  call.step = c.step;
  call.first_element = static_cast<uint64_t>(c.first_sample * c.sequence_length * c.model.width);
  c.ops.dropout(call);
  c.show("y", y);
}

}  // namespace dettax
