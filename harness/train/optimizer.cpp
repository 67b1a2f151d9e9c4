#include "harness/train/optimizer.h"

#include <cmath>

namespace dettax {
namespace {

// Over the ranks that hold parts of one copy of the model. Summed in order of arrival each replica's would be another; one counts.
void sum_over_ranks(StepContext& c, const Tensor& squares) {
  Communicator& model = c.mesh.model();
  const bool replicas_differ = c.knobs.grad_norm == Order::arrival && c.mesh.world().size() > 1;
  if (model.size() == 1 && !replicas_differ) return;
  c.begin(Op::gradient_norm);
  c.probe.output("squares before", squares, 0);
  c.device.synchronize();
  if (model.size() > 1) model.all_reduce(squares.f32(), 1, c.knobs.collectives);
  if (replicas_differ) c.mesh.world().broadcast(squares.f32(), sizeof(float), 0);
}

// Parameter by parameter in the order of the layout, all into one scalar. It is shown after each: a
// difference of the smallest kind is often lost in the roundings that follow.
float gradient_norm(StepContext& c) {
  const Tensor& squares = c.buffers.norm_squares;
  c.begin(Op::gradient_norm);
  c.ops.fill_bytes(squares, 0);
  for (int p = 0; p < static_cast<int>(c.parameters.size()); ++p) {
    if (!c.layout.parameters[static_cast<size_t>(p)].primary) continue;
    c.ops.sum_of_squares({squares, c.gradient(p), true, c.sum(c.knobs.grad_norm)});
    c.probe.output("squares", squares, 0);
  }
  sum_over_ranks(c, squares);
  c.probe.output("squares", squares, 0);
  float sum = 0;
  c.device.copy_to_host(&sum, squares.data, sizeof sum);
  return std::sqrt(sum);
}

float clip_factor(StepContext& c, const Optimizer& settings, float norm) {
  float factor = 1;
  if (settings.clip_norm > 0 && norm > static_cast<float>(settings.clip_norm)) {
    factor = static_cast<float>(settings.clip_norm) / norm;
  }
  c.begin(Op::clip);
  c.device.copy_from_host(c.buffers.clip.data, &factor, sizeof factor);
  c.probe.output("factor", c.buffers.clip, 0);
  return factor;
}

}  // namespace

Update update_weights(StepContext& c, const Optimizer& settings, LossScale& loss_scale, int64_t t) {
  c.phase = Phase::optimizer;
  const double unscale = 1 / loss_scale.value();  // a power of two
  const float norm = gradient_norm(c) * static_cast<float>(unscale);
  if (!loss_scale.accept(std::isfinite(norm))) return {norm, true};
  const float factor = clip_factor(c, settings, norm);
  c.begin(Op::adamw);
  for (int p = 0; p < static_cast<int>(c.parameters.size()); ++p) {
    AdamW call;
    call.weights = c.value(p);
    call.gradients = c.gradient(p);
    call.first_moment = c.parameters.first_moment(p);
    call.second_moment = c.parameters.second_moment(p);
    call.learning_rate = settings.learning_rate;
    call.beta1 = settings.beta1;
    call.beta2 = settings.beta2;
    call.epsilon = settings.epsilon;
    call.weight_decay =
        c.layout.parameters[static_cast<size_t>(p)].matrix ? settings.weight_decay : 0;
    call.gradient_scale = static_cast<double>(factor) * unscale;
    call.step = t;
    c.ops.adamw(call);
  }
  return {norm, false};
}

}  // namespace dettax
