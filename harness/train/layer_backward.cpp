#include <cmath>
#include <utility>

#include "harness/train/context_parallel.h"
#include "harness/train/layer.h"
#include "harness/train/moe_layer.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

// Both gradients of a linear layer: dx from dy and the weight, those of weight and bias from dy and the kept input.
struct LinearGradient {
  Op input_op, weight_op;
  Tensor dx, dy, x;
  Tensor gelu_pre_activation;
};

void input_gradient(StepContext& c, const LinearParameters& p, const LinearGradient& g) {
  c.fresh(g.dx);
  c.begin(g.input_op);
  const Tensor dy = c.operand(Operand::gradient, g.input_op, g.dy, SumOver::columns);
  const Tensor w = c.operand(Operand::weight, g.input_op, c.value(p.weight), SumOver::rows);
  c.ops.linear_backward_input({g.dx, dy, w, g.gelu_pre_activation, false, c.knobs.dynamic_schedule,
                               c.operands.format_in_product(), c.knobs.gemm, !c.recomputes()});
  c.output("dx", g.dx);
}

void weight_gradient(StepContext& c, const LinearParameters& p, const LinearGradient& g) {
  c.begin(g.weight_op);
  LinearBackwardWeight call;
  call.dw = c.gradient(p.weight);
  call.dbias = c.gradient(p.bias);
  call.dy = c.operand(Operand::gradient, g.input_op, g.dy, SumOver::rows);
  call.x = c.operand(Operand::input, g.input_op, g.x, SumOver::rows);
  call.accumulate = c.accumulate;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.gemm);
  call.operands = c.operands.format_in_product();
  c.ops.linear_backward_weight(call);
  c.show_gradient(p.weight);
  c.show_gradient(p.bias);
}

// What ranks exchange goes on behind the gradient that does not need it.
void column_parallel_backward(StepContext& c, const LinearParameters& p, LinearGradient g) {
  const Tensor own = g.dx;
  RowExchange x = start_gathering(c, "x", g.x);
  g.dx = partial_gradient(c, own);
  input_gradient(c, p, g);
  RowExchange dx = start_adding(c, "dx", g.dx, own);
  g.x = finish(c, x);
  weight_gradient(c, p, g);
  finish(c, dx);
}

// From the gathered gradient that of the bias is whole on every rank.
void row_parallel_backward(StepContext& c, const LinearParameters& p, LinearGradient g) {
  g.dy = gather_rows(c, "dy", g.dy);
  input_gradient(c, p, g);
  weight_gradient(c, p, g);
}

// The gradient of a branch is that of the residual stream, but for the elements that were dropped.
Tensor branch_gradient(StepContext& c, Op op, uint32_t dropout_place) {
  if (c.model.dropout == 0) return c.buffers.d_residual;
  c.fresh(c.buffers.d_branch);
  dropout(c, op, dropout_place, c.buffers.d_branch, c.buffers.d_residual);
  return c.buffers.d_branch;
}

// Memory that layers with MLPs of other widths share.
Tensor shaped_like(const Tensor& kept, const Tensor& memory) {
  Tensor view = kept;
  view.data = memory.data;
  return view;
}

// d_norm from dy, the gradient of the result.
void mlp_backward(StepContext& c, const LayerParameters& p, const LayerActivations& a,
                  const Tensor& dy) {
  const Activations& b = c.buffers;
  const Tensor d_activated = shaped_like(a.activated, b.d_activated);
  const Tensor d_up = shaped_like(a.up, b.d_up);
  LinearGradient down{Op::mlp_down, Op::mlp_down_weight, d_activated, dy, a.activated, {}};
  if (c.model.activation == Activation::gelu) down.gelu_pre_activation = a.up;
  row_parallel_backward(c, p.down, down);
  if (c.model.activation == Activation::swiglu) {
    c.fresh(d_up);
    c.begin(Op::swiglu);
    c.ops.swiglu_backward({d_up, d_activated, a.up});
    c.output("dx", d_up);
  }
  column_parallel_backward(c, p.up, {Op::mlp_up, Op::mlp_up_weight, b.d_norm, d_up, a.norm2, {}});
}

void second_branch_backward(StepContext& c, const LayerParameters& p, const LayerActivations& a,
                            uint32_t dropout_place) {
  const Tensor dy = branch_gradient(c, Op::mlp_dropout, dropout_place);
  const bool mlp = p.up.weight != kNoParameter;
  if (mlp) mlp_backward(c, p, a, dy);
  if (has_experts(c)) experts_backward(c, dy, mlp);
  norm_backward(c, Op::norm2, p.norm2, a.middle, {a.norm2, a.mean2, a.rstd2}, true);
}

// dQ, dK and dV apart, since only dQ is a sum over key blocks. The incoming gradient has been used and lends its memory.
void show_parts(StepContext& c, const Tensor& dqkv) {
  if (!c.probe.sees_every_op()) return;
  const int64_t key_columns = c.sizes.key_value_heads * c.model.head_width;
  int64_t begin = 0;
  for (const auto& [name, columns] :
       {std::pair{"dq", c.sizes.attention_width}, {"dk", key_columns}, {"dv", key_columns}}) {
    const Tensor part = make_tensor(c.buffers.d_attention.data, DType::f32, {dqkv.rows(), columns});
    c.ops.copy_columns({part, dqkv, 0, begin, columns, false});
    c.show(name, part);
    if (c.probe.injected()) c.ops.copy_columns({dqkv, part, begin, 0, columns, false});
    begin += columns;
  }
}

void attention_backward(StepContext& c, const LayerActivations& a) {
  const Activations& b = c.buffers;
  c.fresh(b.d_qkv);
  c.begin(Op::attention);
  AttentionBackward call;
  call.dqkv = b.d_qkv;
  call.dout = b.d_attention;
  call.out = a.attention;
  call.log_sum_exp = a.log_sum_exp;
  call.qkv = a.qkv;
  call.samples = c.samples;
  call.heads = c.sizes.heads;
  call.key_value_heads = c.sizes.key_value_heads;
  call.scale = 1.0 / std::sqrt(static_cast<double>(c.model.head_width));
  call.sum = c.sum(c.knobs.attention);
  context_parallel(c) ? ring_attention_backward(c, call) : c.ops.attention_backward(call);
  c.round(b.d_qkv);
  show_parts(c, b.d_qkv);
  if (c.model.position != Position::rope) return;
  c.begin(Op::rope);
  c.ops.rope({b.d_qkv, c.samples, c.sizes.heads, c.sizes.key_value_heads, c.model.rope_theta, true,
              c.places});
  c.output("dqkv", b.d_qkv);
}

}  // namespace

void layer_backward(StepContext& c, const Tensor& x) {
  c.gathered.need_layer(c);
  const Activations& b = c.buffers;
  const LayerActivations& a = b.layers[static_cast<size_t>(c.layer)];
  const LayerParameters& p = c.layout.layers[static_cast<size_t>(c.layer)];
  const auto place = static_cast<uint32_t>(2 * c.layer);
  second_branch_backward(c, p, a, place + 2);
  const Tensor dy = branch_gradient(c, Op::projection_dropout, place + 1);
  row_parallel_backward(
      c, p.projection, {Op::projection, Op::projection_weight, b.d_attention, dy, a.attention, {}});
  attention_backward(c, a);
  column_parallel_backward(c, p.qkv, {Op::qkv, Op::qkv_weight, b.d_norm, b.d_qkv, a.norm1, {}});
  norm_backward(c, Op::norm1, p.norm1, x, {a.norm1, a.mean1, a.rstd1}, true);
  c.reduction.complete_from(c, c.parameters.offset(p.norm1.gamma));
}

}  // namespace dettax
