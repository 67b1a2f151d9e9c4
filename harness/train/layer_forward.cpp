#include <cmath>

#include "harness/train/context_parallel.h"
#include "harness/train/layer.h"
#include "harness/train/moe_layer.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

void linear(StepContext& c, Op op, const LinearParameters& p, LinearForward call) {
  call.bias = c.value(p.bias);
  call.dynamic_schedule = c.knobs.dynamic_schedule;
  c.fresh(call.pre_activation);
  c.fresh(call.y);
  c.begin(op);
  call.x = c.operand(Operand::input, op, call.x, SumOver::columns);
  call.w = c.operand(Operand::weight, op, c.value(p.weight), SumOver::columns);
  call.operands = c.operands.format_in_product();
  call.order = c.knobs.gemm;
  call.may_fuse_gelu = !c.recomputes();
  c.ops.linear_forward(call);
  c.output("pre_activation", call.pre_activation);
  c.output("y", call.y);
}

Epilogue plain(const LinearParameters& p) {
  return p.bias == kNoParameter ? Epilogue::none : Epilogue::bias;
}

void column_parallel(StepContext& c, Op op, const LinearParameters& p, LinearForward call) {
  call.x = gather_rows(c, "x", call.x);
  linear(c, op, p, call);
}

// y = x w^T + residual, where the branch is dropped out before the sum if the model says so.
struct BranchEnd {
  Op op, bias, dropout, residual;
  uint32_t dropout_place;
};

// The same where each rank has some columns of x and w: bias and residual come once, behind the sum over ranks.
void end_row_parallel_branch(StepContext& c, const BranchEnd& end, const LinearParameters& p,
                             const Tensor& x, const Tensor& residual, const Tensor& y) {
  LinearForward call;
  call.x = x;
  call.y = partial_output(c, y);
  linear(c, end.op, {p.weight, kNoParameter}, call);
  add_partials(c, "y", call.y, y);
  if (c.model.dropout > 0) {
    if (p.bias != kNoParameter) {
      c.begin(end.bias);
      c.ops.add_bias_residual({y, c.value(p.bias), {}});
    }
    dropout(c, end.dropout, end.dropout_place, y, y);
  }
  c.begin(end.residual);
  c.ops.add_bias_residual({y, c.model.dropout > 0 ? Tensor{} : c.value(p.bias), residual});
  c.output("y", y);
}

void end_branch(StepContext& c, const BranchEnd& end, const LinearParameters& p, const Tensor& x,
                const Tensor& residual, const Tensor& y) {
  if (tensor_parallel(c)) return end_row_parallel_branch(c, end, p, x, residual, y);
  LinearForward call;
  call.x = x;
  call.y = y;
  if (c.model.dropout == 0) {
    call.residual = residual;
    call.epilogue = p.bias == kNoParameter ? Epilogue::residual : Epilogue::bias_residual;
    linear(c, end.op, p, call);
    return;
  }
  call.epilogue = plain(p);
  linear(c, end.op, p, call);
  dropout(c, end.dropout, end.dropout_place, y, y);
  c.begin(end.residual);
  c.ops.add(y, residual);
  c.output("y", y);
}

void rotate(StepContext& c, const LayerActivations& a) {
  if (c.model.position != Position::rope) return;
  c.begin(Op::rope);
  c.ops.rope({a.qkv, c.samples, c.sizes.heads, c.sizes.key_value_heads, c.model.rope_theta, false,
              c.places});
  c.output("qkv", a.qkv);
}

void attention(StepContext& c, const LayerActivations& a) {
  c.fresh(a.attention);
  c.fresh(a.log_sum_exp);
  c.begin(Op::attention);
  const AttentionForward call{a.attention,
                              a.log_sum_exp,
                              a.qkv,
                              c.samples,
                              c.sizes.heads,
                              c.sizes.key_value_heads,
                              1.0 / std::sqrt(static_cast<double>(c.model.head_width))};
  context_parallel(c) ? ring_attention_forward(c, call) : c.ops.attention_forward(call);
  c.output("out", a.attention);
  c.show("log_sum_exp", a.log_sum_exp);
}

void activate(StepContext& c, const LayerActivations& a) {
  const bool gated = c.model.activation == Activation::swiglu;
  c.fresh(a.activated);
  c.begin(gated ? Op::swiglu : Op::gelu);
  gated ? c.ops.swiglu_forward({a.activated, a.up}) : c.ops.gelu_forward({a.activated, a.up});
  c.output("y", a.activated);
}

// In the product's epilogue where its result needs no rounding between: the activation function reads what is stored, so that it can
// be computed again.
void activate_up(StepContext& c, const LinearParameters& p, const LayerActivations& a) {
  const bool rounded = c.operands.recipe().activations != NumberFormat::f32;
  LinearForward call;
  call.x = a.norm2;
  if (c.model.activation == Activation::gelu && !rounded) {
    call.y = a.activated;
    call.pre_activation = a.up;
    call.epilogue = Epilogue::bias_gelu;
    column_parallel(c, Op::mlp_up, p, call);
    return;
  }
  call.y = a.up;
  call.epilogue = plain(p);
  column_parallel(c, Op::mlp_up, p, call);
  activate(c, a);
}

const LayerActivations& activations(const StepContext& c) {
  return c.buffers.layers[static_cast<size_t>(c.layer)];
}
const LayerParameters& parameters(const StepContext& c) {
  return c.layout.layers[static_cast<size_t>(c.layer)];
}
uint32_t dropout_place(const StepContext& c) { return static_cast<uint32_t>(2 * c.layer); }

}  // namespace

void layer_up_to_activation(StepContext& c, const Tensor& x) {
  c.gathered.need_layer(c);
  const LayerActivations& a = activations(c);
  const LayerParameters& p = parameters(c);
  norm_forward(c, Op::norm1, p.norm1, x, {a.norm1, a.mean1, a.rstd1});
  LinearForward qkv;
  qkv.x = a.norm1;
  qkv.y = a.qkv;
  qkv.epilogue = plain(p.qkv);
  column_parallel(c, Op::qkv, p.qkv, qkv);
  rotate(c, a);
  attention(c, a);
  end_branch(c,
             {Op::projection, Op::projection_bias, Op::projection_dropout, Op::projection_residual,
              dropout_place(c) + 1},
             p.projection, a.attention, x, a.middle);
  norm_forward(c, Op::norm2, p.norm2, a.middle, {a.norm2, a.mean2, a.rstd2});
  if (p.up.weight != kNoParameter) activate_up(c, p.up, a);
}

void layer_forward(StepContext& c, const Tensor& x) {
  layer_up_to_activation(c, x);
  const LayerActivations& a = activations(c);
  const LinearParameters& down = parameters(c).down;
  if (down.weight != kNoParameter) {
    end_branch(
        c, {Op::mlp_down, Op::mlp_bias, Op::mlp_dropout, Op::mlp_residual, dropout_place(c) + 2},
        down, a.activated, a.middle, a.output);
  }
  if (has_experts(c))
    experts_forward(c, down.weight == kNoParameter ? a.middle : a.output, a.output);
}

void layer_cheap_parts(StepContext& c, const Tensor& x) {
  c.gathered.need_layer(c);
  const LayerActivations& a = activations(c);
  const LayerParameters& p = parameters(c);
  norm_forward(c, Op::norm1, p.norm1, x, {a.norm1, a.mean1, a.rstd1});
  attention(c, a);
  norm_forward(c, Op::norm2, p.norm2, a.middle, {a.norm2, a.mean2, a.rstd2});
  if (p.up.weight != kNoParameter) activate(c, a);
}

}  // namespace dettax
