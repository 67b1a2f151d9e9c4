#include "harness/train/optimizer.h"

#include <cmath>

namespace dettax {
namespace {

// What every rank that shares experts has the sum of counts once among them; what the replicas, which they are, each have a part of
// counts everywhere.
bool counts_here(const StepContext& c, const ParameterSpec& spec) {
  return spec.primary &&
         (spec.of_experts || c.reduction.scattered() || c.mesh.expert().rank() == 0);
}

// Over the replicas where each has some of the sums, then over the ranks that hold parts of one copy of the model. Where that leaves
// each replica a sum of its own, in order of arrival, one of them counts.
void sum_over_ranks(StepContext& c, const Tensor& squares) {
  Communicator& model = c.mesh.model();
  const bool any_order = c.knobs.grad_norm == Order::arrival ||
                         (model.size() > 1 && c.knobs.collectives == Order::arrival);
  const bool replicas_differ = any_order && c.mesh.world().size() > 1;
  const bool parts = c.reduction.scattered();
  if (model.size() == 1 && !parts && !replicas_differ) return;
  c.begin(Op::gradient_norm);
  c.probe.output("squares before", squares, 0);
  c.device.synchronize();
  if (parts) c.mesh.replicas().all_reduce(squares.f32(), 1, c.knobs.collectives);
  if (parts && c.mesh.expert().size() > 1) {
    c.mesh.tensor().all_reduce(squares.f32(), 1, c.knobs.collectives);
    c.mesh.pipeline().all_reduce(squares.f32(), 1, c.knobs.collectives);
  } else if (model.size() > 1) {
    model.all_reduce(squares.f32(), 1, c.knobs.collectives);
  }
  if (replicas_differ) c.mesh.world().broadcast(squares.f32(), sizeof(float), 0);
}

// Parameter by parameter in the order of the layout, all into one scalar. It is shown after each: a
// difference of the smallest kind is often lost in the roundings that follow.
float gradient_norm(StepContext& c) {
  const Tensor& squares = c.buffers.norm_squares;
  c.begin(Op::gradient_norm);
  c.ops.fill_bytes(squares, 0);
  for (int p = 0; p < static_cast<int>(c.parameters.size()); ++p) {
    const Tensor gradient = c.reduced_gradient(p);
    if (!counts_here(c, c.layout.parameters[static_cast<size_t>(p)]) || gradient.count() == 0)
      continue;
    c.ops.sum_of_squares({squares, gradient, true, c.sum(c.knobs.grad_norm)});
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

void apply(StepContext& c, const Optimizer& settings, double scale, int64_t t) {
  c.begin(Op::adamw);
  for (int p = 0; p < static_cast<int>(c.parameters.size()); ++p) {
    if (c.parameters.owned(p).count == 0) continue;
    AdamW call;
    call.weights = c.parameters.owned_value(p);
    call.gradients = c.parameters.owned_gradient(p);
    call.first_moment = c.parameters.first_moment(p);
    call.second_moment = c.parameters.second_moment(p);
    call.learning_rate = settings.learning_rate;
    call.beta1 = settings.beta1;
    call.beta2 = settings.beta2;
    call.epsilon = settings.epsilon;
    call.weight_decay =
        c.layout.parameters[static_cast<size_t>(p)].matrix ? settings.weight_decay : 0;
    call.gradient_scale = scale;
    call.step = t;
    c.ops.adamw(call);
  }
}

// What each replica updated goes to all of them. Sharded weights are gathered when they are needed.
void share_weights(StepContext& c) {
  if (!c.parameters.sharded() || c.parameters.weights_sharded()) return;
  c.begin(Op::weight_gather);
  c.device.synchronize();
  const StoragePlan& plan = c.parameters.plan();
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (plan.buckets[b].begin >= plan.weights) continue;  // a gradient without weights of its own
    if (!c.parameters.in_shards(b)) continue;
    const Tensor own = c.parameters.owned_weights(b);
    const Tensor all = c.parameters.weights_range(b);
    c.probe.output("weights before", own, 0);
    c.mesh.replicas(plan.buckets[b].of_experts).all_gather(own.data, all.data, own.bytes());
    c.probe.output("weights", all, 0);
  }
}

}  // namespace

Update update_weights(StepContext& c, const Optimizer& settings, LossScale& loss_scale, int64_t t) {
  c.phase = Phase::optimizer;
  const double unscale = 1 / loss_scale.value();  // a power of two
  const float norm = gradient_norm(c) * static_cast<float>(unscale);
  if (!loss_scale.accept(std::isfinite(norm))) return {norm, true};
  const float factor = clip_factor(c, settings, norm);
  apply(c, settings, static_cast<double>(factor) * unscale, t);
  share_weights(c);
  c.gathered.forget();
  return {norm, false};
}

}  // namespace dettax
