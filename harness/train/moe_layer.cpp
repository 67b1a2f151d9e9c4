#include "harness/train/moe_layer.h"

#include <utility>
#include <vector>

#include "harness/train/context_parallel.h"
#include "harness/train/expert_counts.h"
#include "harness/train/expert_exchange.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

const LayerActivations& activations(const StepContext& c) {
  return c.buffers.layers[static_cast<size_t>(c.layer)];
}
const LayerParameters& parameters(const StepContext& c) {
  return c.layout.layers[static_cast<size_t>(c.layer)];
}

Tensor first_rows(const Tensor& tensor, int64_t rows) {
  return make_tensor(tensor.data, DType::f32, {rows, tensor.columns()});
}

// Rows of experts belong to no sample's place, so that they are shown as they stand.
void output_rows(StepContext& c, std::string_view name, const Tensor& rows) {
  if (rows.count() == 0) return;
  c.round(rows);
  c.probe.output(name, rows, 0);
}

Tensor operand(StepContext& c, Operand part, Op op, const Tensor& values, SumOver sum) {
  return values.count() == 0 ? values : c.operand(part, op, values, sum);
}

bool balances(const StepContext& c) { return bool{c.buffers.balance}; }
// Tokens of a sample on all ranks, where the calls have to be told.
int64_t all_tokens(const StepContext& c) { return context_parallel(c) ? c.sequence_length : 0; }

// All tensor ranks must send a token to the same experts, but their copies of the router may come to differ where sums are in order
// of arrival: the first decides.
void agree_on_logits(StepContext& c) {
  if (!tensor_parallel(c)) return;
  const Tensor& logits = c.buffers.experts.logits;
  c.begin(Op::router_agreement);
  c.device.synchronize();
  c.mesh.tensor().broadcast(logits.data, logits.bytes(), 0);
  c.show("logits", logits);
}

// In f32 in every precision: a rounded logit can be another expert.
void route(StepContext& c, const ExpertActivations& e, const Tensor& x) {
  const Moe& moe = *c.model.moe;
  LinearForward logits;
  logits.y = c.buffers.experts.logits;
  logits.x = x;
  logits.w = c.value(parameters(c).router);
  logits.dynamic_schedule = c.knobs.dynamic_schedule;
  logits.order = c.knobs.gemm;
  c.fresh(logits.y);
  c.fresh(e.probabilities);
  c.fresh(e.weights);
  c.begin(Op::router);
  c.ops.linear_forward(logits);
  c.show("logits", logits.y);
  agree_on_logits(c);
  c.begin(Op::router);
  c.ops.route_tokens({e.probabilities, e.experts, e.weights, logits.y, c.samples,
                      moe.routing == Routing::balanced, moe.normalised, c.places});
  c.show("experts", e.experts);
  c.show("weights", e.weights);
}

int64_t capacity(const StepContext& c) { return c.expert_sizes.capacity; }

// With the choices of all ranks that share the samples, where any of them matter.
void plan_shared_samples(StepContext& c, PlanExperts call) {
  const ExpertActivations& e = activations(c).experts;
  const std::vector<int32_t> counts = count_over_context(c, e);
  call.before = c.buffers.experts.before;
  c.begin(Op::expert_permute);
  c.ops.plan_experts(call);
  c.device.copy_from_host(call.plan.counts.data, counts.data(), counts.size() * sizeof(int32_t));
}

void plan_rows(StepContext& c, const ExpertActivations& e) {
  const PlanExperts call{e.plan, e.experts, capacity(c), c.sum(c.knobs.moe)};
  if (context_parallel(c) && (capacity(c) > 0 || balances(c))) {
    plan_shared_samples(c, call);
  } else {
    c.begin(Op::expert_permute);
    c.ops.plan_experts(call);
  }
  c.probe.output("slots", e.plan.slots, 0);
  if (experts_spread(c)) agree_on_rows(c, e);
  if (!balances(c)) return;
  c.begin(Op::balance_loss);
  c.ops.balance_loss({c.buffers.balance, e.probabilities, e.plan.counts, c.model.moe->top_k,
                      c.model.moe->balance_weight, all_tokens(c)});
  c.show("losses", c.buffers.balance);
}

void expert_linear(StepContext& c, Op op, int weight, const ExpertActivations& e, const Tensor& x,
                   const Tensor& y) {
  c.fresh(y);
  c.begin(op);
  ExpertLinearForward call;
  call.x = operand(c, Operand::input, op, x, SumOver::columns);
  call.w = c.operand(Operand::weight, op, c.value(weight), SumOver::columns);
  call.y = y;
  call.segments = e.segments;
  call.dynamic_schedule = c.knobs.dynamic_schedule;
  call.operands = c.operands.format_in_product();
  call.order = c.knobs.gemm;
  c.ops.expert_linear_forward(call);
  output_rows(c, "y", y);
}

void activate(StepContext& c, const ExpertActivations& e, const ExpertTraffic& traffic) {
  const Tensor activated = first_rows(e.activated, traffic.received);
  c.fresh(activated);
  c.begin(Op::expert_swiglu);
  c.ops.swiglu_forward({activated, first_rows(e.up, traffic.received)});
  output_rows(c, "y", activated);
}

// From tokens to the results of their experts.
void through_experts(StepContext& c, const ExpertActivations& e, const Tensor& x) {
  const ExpertScratch& s = c.buffers.experts;
  const LayerParameters& p = parameters(c);
  const ExpertTraffic traffic = traffic_of(c, e);
  const bool spread = experts_spread(c);
  const Tensor sent = first_rows(spread ? s.rows : e.input, traffic.sent);
  const Tensor input = first_rows(e.input, traffic.received);
  c.fresh(sent);
  c.begin(Op::expert_permute);
  c.ops.permute_rows({sent, x, e.plan.sources, c.model.moe->top_k});
  c.probe.output("rows", sent, 0);
  if (spread) send_to_experts(c, Op::expert_dispatch, e, traffic, sent, input);
  expert_linear(c, Op::expert_up, p.expert_up, e, input, first_rows(e.up, traffic.received));
  activate(c, e, traffic);
  const Tensor result = first_rows(spread ? s.expert_rows : e.output, traffic.received);
  const Tensor back = first_rows(e.output, traffic.sent);
  expert_linear(c, Op::expert_down, p.expert_down, e, first_rows(e.activated, traffic.received),
                result);
  if (spread) send_to_tokens(c, Op::expert_combine, e, traffic, result, back);
}

// dx from dy and the weights, then the weights' own from dy and the kept input.
struct ExpertGradient {
  Op input_op, weight_op;
  int weight;
  Tensor dx, dy, x;
};

void expert_linear_backward(StepContext& c, const ExpertActivations& e, const ExpertGradient& g) {
  c.begin(g.weight_op);
  ExpertLinearBackwardWeight weight;
  weight.dw = c.gradient(g.weight);
  weight.dy = operand(c, Operand::gradient, g.input_op, g.dy, SumOver::rows);
  weight.x = operand(c, Operand::input, g.input_op, g.x, SumOver::rows);
  weight.segments = e.segments;
  weight.accumulate = c.accumulate;
  weight.sum = c.sum(c.knobs.gemm);
  weight.operands = c.operands.format_in_product();
  c.ops.expert_linear_backward_weight(weight);
  c.show_gradient(g.weight);
  c.fresh(g.dx);
  c.begin(g.input_op);
  ExpertLinearBackwardInput input;
  input.dx = g.dx;
  input.dy = operand(c, Operand::gradient, g.input_op, g.dy, SumOver::columns);
  input.w = c.operand(Operand::weight, g.input_op, c.value(g.weight), SumOver::rows);
  input.segments = e.segments;
  input.dynamic_schedule = c.knobs.dynamic_schedule;
  input.operands = c.operands.format_in_product();
  input.order = c.knobs.gemm;
  c.ops.expert_linear_backward_input(input);
  output_rows(c, "dx", g.dx);
}

void unpermute(StepContext& c, Op op, const char* name, const UnpermuteRows& rows) {
  UnpermuteRows call = rows;
  call.sum = c.sum(c.knobs.moe);
  call.generic = c.knobs.generic_index_ops;
  if (call.y.data != call.residual.data) c.fresh(call.y);
  c.begin(op);
  c.ops.unpermute_rows(call);
  c.output(name, call.y);
}

// Adds to dx, and the weights' own.
void router_backward(StepContext& c, const ExpertActivations& e, const Tensor& dx) {
  const Moe& moe = *c.model.moe;
  const ExpertScratch& s = c.buffers.experts;
  const int router = parameters(c).router;
  c.fresh(s.logits);
  c.begin(Op::router);
  c.ops.route_tokens_backward({s.logits, s.d_weights, e.probabilities, e.experts, e.weights,
                               e.plan.counts, moe.normalised, moe.balance_weight * c.gradient_scale,
                               all_tokens(c)});
  c.show("dlogits", s.logits);
  // Every tensor rank has all of it, and dx is a part of a sum over them.
  if (c.mesh.position().tp == 0) {
    c.ops.linear_backward_input({dx,
                                 s.logits,
                                 c.value(router),
                                 {},
                                 true,
                                 c.knobs.dynamic_schedule,
                                 NumberFormat::f32,
                                 c.knobs.gemm});
    c.output("dx", dx);
  }
  const Tensor x = gather_rows(c, "x", activations(c).norm2);
  c.begin(Op::router_weight);
  LinearBackwardWeight weight;
  weight.dw = c.gradient(router);
  weight.dy = s.logits;
  weight.x = x;
  weight.accumulate = c.accumulate;
  weight.samples = c.samples;
  weight.sum = c.sum(c.knobs.gemm);
  c.ops.linear_backward_weight(weight);
  c.show_gradient(router);
}

// out = residual + the sum over tensor ranks, each of which has a part of every expert's result.
void add_experts_of_tensor_ranks(StepContext& c, UnpermuteRows sum) {
  const Tensor out = sum.y;
  const Tensor residual = std::exchange(sum.residual, {});
  const bool in_place = residual.data == out.data;
  const Tensor own = in_place ? c.buffers.experts.sums : out;
  sum.y = partial_output(c, own);
  unpermute(c, Op::expert_unpermute, "y", sum);
  add_partials(c, "y", sum.y, own);
  c.begin(Op::expert_unpermute);
  if (in_place) {
    c.ops.add(out, own);
  } else {
    c.ops.add_bias_residual({out, {}, residual});
  }
  c.output("y", out);
}

// From a part of the experts' results each tensor rank has a part of the gradient of their weights.
void add_weight_gradients(StepContext& c) {
  if (!tensor_parallel(c)) return;
  const Tensor& d_weights = c.buffers.experts.d_weights;
  c.begin(Op::tensor_all_reduce);
  c.device.synchronize();
  c.mesh.tensor().all_reduce(d_weights.f32(), d_weights.count(), c.knobs.collectives);
  c.show("dweights", d_weights);
}

// d_norm (+)= the gradients of the rows of experts, and that of the router.
void input_gradient(StepContext& c, const ExpertActivations& e, UnpermuteRows sum,
                    bool accumulate) {
  const Tensor& d_norm = c.buffers.d_norm;
  if (!tensor_parallel(c)) {
    sum.y = d_norm;
    if (accumulate) sum.residual = d_norm;
    unpermute(c, Op::expert_permute, "dx", sum);
    return router_backward(c, e, d_norm);
  }
  const Tensor own = accumulate ? c.buffers.experts.sums : d_norm;
  sum.y = partial_gradient(c, own);
  unpermute(c, Op::expert_permute, "dx", sum);
  router_backward(c, e, sum.y);
  add_partials(c, "dx", sum.y, own);
  if (!accumulate) return;
  c.begin(Op::expert_permute);
  c.ops.add(d_norm, own);
  c.output("dx", d_norm);
}

}  // namespace

bool has_experts(const StepContext& c) { return has_experts(c.model, c.layer); }

void begin_balance_losses(StepContext& c) {
  if (!balances(c)) return;
  const Tensor& before = c.buffers.balance_before;
  if (before) {
    c.ops.copy(c.buffers.balance, before);
  } else {
    c.ops.fill_bytes(c.buffers.balance, 0);
  }
}

void add_balance_losses(StepContext& c) {
  if (!balances(c)) return;
  c.begin(Op::balance_loss);
  c.ops.add(c.buffers.losses, c.buffers.balance);
  c.show("losses", c.buffers.losses);
}

void experts_forward(StepContext& c, const Tensor& residual, const Tensor& out) {
  const LayerActivations& a = activations(c);
  const ExpertActivations& e = a.experts;
  const Tensor x = gather_rows(c, "x", a.norm2);
  route(c, e, x);
  plan_rows(c, e);
  through_experts(c, e, x);
  UnpermuteRows sum;
  sum.y = out;
  sum.rows = e.output;
  sum.weights = e.weights;
  sum.residual = residual;
  sum.plan = e.plan;
  if (tensor_parallel(c)) return add_experts_of_tensor_ranks(c, sum);
  unpermute(c, Op::expert_unpermute, "y", sum);
}

void experts_rows_again(StepContext& c) {
  const LayerActivations& a = activations(c);
  through_experts(c, a.experts, gather_rows(c, "x", a.norm2));
}

void experts_activation_again(StepContext& c) {
  const ExpertActivations& e = activations(c).experts;
  activate(c, e, traffic_of(c, e));
}

void experts_backward(StepContext& c, const Tensor& own_dy, bool accumulate) {
  const LayerActivations& a = activations(c);
  const ExpertActivations& e = a.experts;
  const ExpertScratch& s = c.buffers.experts;
  const LayerParameters& p = parameters(c);
  const ExpertTraffic traffic = traffic_of(c, e);
  const bool spread = experts_spread(c);
  const Tensor rows = first_rows(s.rows, traffic.sent);
  const Tensor expert_rows = first_rows(s.expert_rows, traffic.received);
  const Tensor dy = gather_rows(c, "dy", own_dy);
  c.fresh(rows);
  c.fresh(s.d_weights);
  c.begin(Op::expert_unpermute);
  c.ops.unpermute_rows_backward({s.rows, s.d_weights, dy, e.output, e.weights, e.plan});
  output_rows(c, "drows", rows);
  c.show("dweights", s.d_weights);
  add_weight_gradients(c);
  // Back at the experts, where the gradient of their input will replace that of their result.
  if (spread) send_to_experts(c, Op::expert_combine, e, traffic, rows, expert_rows);
  const Tensor d_up = first_rows(s.d_up, traffic.received);
  const Tensor d_activated = first_rows(s.d_activated, traffic.received);
  expert_linear_backward(c, e,
                         {Op::expert_down, Op::expert_down_weight, p.expert_down, d_activated,
                          spread ? expert_rows : rows, first_rows(e.activated, traffic.received)});
  c.fresh(d_up);
  c.begin(Op::expert_swiglu);
  c.ops.swiglu_backward({d_up, d_activated, first_rows(e.up, traffic.received)});
  output_rows(c, "dx", d_up);
  expert_linear_backward(c, e,
                         {Op::expert_up, Op::expert_up_weight, p.expert_up, expert_rows, d_up,
                          first_rows(e.input, traffic.received)});
  if (spread) send_to_tokens(c, Op::expert_dispatch, e, traffic, expert_rows, rows);
  UnpermuteRows sum;
  sum.rows = spread ? s.rows : s.expert_rows;
  sum.plan = e.plan;
  input_gradient(c, e, sum, accumulate);
}

}  // namespace dettax
