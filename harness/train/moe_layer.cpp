#include "harness/train/moe_layer.h"

#include "harness/train/expert_exchange.h"

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

// In f32 in every precision: a rounded logit can be another expert.
void route(StepContext& c, const ExpertActivations& e, const Tensor& x) {
  const Moe& moe = *c.model.moe;
  LinearForward logits;
  logits.y = c.buffers.experts.logits;
  logits.x = x;
  logits.w = c.value(parameters(c).router);
  logits.dynamic_schedule = c.knobs.dynamic_schedule;
  c.fresh(logits.y);
  c.fresh(e.probabilities);
  c.fresh(e.weights);
  c.begin(Op::router);
  c.ops.linear_forward(logits);
  c.show("logits", logits.y);
  c.ops.route_tokens({e.probabilities, e.experts, e.weights, logits.y, c.samples,
                      moe.routing == Routing::balanced, moe.normalised});
  c.show("experts", e.experts);
  c.show("weights", e.weights);
}

int64_t capacity(const StepContext& c) { return c.expert_sizes.capacity; }

void plan_rows(StepContext& c, const ExpertActivations& e) {
  c.begin(Op::expert_permute);
  c.ops.plan_experts({e.plan, e.experts, capacity(c), c.sum(c.knobs.moe)});
  c.probe.output("slots", e.plan.slots, 0);
  if (experts_spread(c)) agree_on_rows(c, e);
  if (!balances(c)) return;
  c.begin(Op::balance_loss);
  c.ops.balance_loss({c.buffers.balance, e.probabilities, e.plan.counts, c.model.moe->top_k,
                      c.model.moe->balance_weight});
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

void router_backward(StepContext& c, const ExpertActivations& e, const Tensor& x) {
  const Moe& moe = *c.model.moe;
  const ExpertScratch& s = c.buffers.experts;
  const int router = parameters(c).router;
  c.fresh(s.logits);
  c.begin(Op::router);
  c.ops.route_tokens_backward({s.logits, s.d_weights, e.probabilities, e.experts, e.weights,
                               e.plan.counts, moe.normalised,
                               moe.balance_weight * c.gradient_scale});
  c.show("dlogits", s.logits);
  c.ops.linear_backward_input(
      {c.buffers.d_norm, s.logits, c.value(router), {}, true, c.knobs.dynamic_schedule});
  c.output("dx", c.buffers.d_norm);
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
  route(c, e, a.norm2);
  plan_rows(c, e);
  through_experts(c, e, a.norm2);
  UnpermuteRows sum;
  sum.y = out;
  sum.rows = e.output;
  sum.weights = e.weights;
  sum.residual = residual;
  sum.plan = e.plan;
  unpermute(c, Op::expert_unpermute, "y", sum);
}

void experts_rows_again(StepContext& c) {
  const LayerActivations& a = activations(c);
  through_experts(c, a.experts, a.norm2);
}

void experts_activation_again(StepContext& c) {
  const ExpertActivations& e = activations(c).experts;
  activate(c, e, traffic_of(c, e));
}

void experts_backward(StepContext& c, const Tensor& dy, bool accumulate) {
  const LayerActivations& a = activations(c);
  const ExpertActivations& e = a.experts;
  const ExpertScratch& s = c.buffers.experts;
  const LayerParameters& p = parameters(c);
  const ExpertTraffic traffic = traffic_of(c, e);
  const bool spread = experts_spread(c);
  const Tensor rows = first_rows(s.rows, traffic.sent);
  const Tensor expert_rows = first_rows(s.expert_rows, traffic.received);
  c.fresh(rows);
  c.fresh(s.d_weights);
  c.begin(Op::expert_unpermute);
  c.ops.unpermute_rows_backward({s.rows, s.d_weights, dy, e.output, e.weights, e.plan});
  output_rows(c, "drows", rows);
  c.show("dweights", s.d_weights);
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
  sum.y = c.buffers.d_norm;
  sum.rows = spread ? s.rows : s.expert_rows;
  if (accumulate) sum.residual = c.buffers.d_norm;
  sum.plan = e.plan;
  unpermute(c, Op::expert_permute, "dx", sum);
  router_backward(c, e, a.norm2);
}

}  // namespace dettax
