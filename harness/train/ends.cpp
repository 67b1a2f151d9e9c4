#include "harness/train/ends.h"

#include "harness/train/layer.h"
#include "harness/train/moe_layer.h"
#include "harness/train/tensor_parallel.h"
#include "harness/train/vocabulary_parallel.h"

namespace dettax {
namespace {

// The rows of the position table that this sequence length uses.
Tensor used_positions(const StepContext& c, const Tensor& table) {
  return table ? make_tensor(table.data, table.type, {c.sequence_length, c.model.width}) : table;
}

TablePart table_part(const StepContext& c) { return {c.sizes.first_token, tensor_parallel(c)}; }

void separate_loss(StepContext& c) {
  const Activations& b = c.buffers;
  LinearForward head;
  head.y = b.logits;
  head.x = gather_rows(c, "x", b.final_norm);
  head.w = c.head_operand();
  head.dynamic_schedule = c.knobs.dynamic_schedule;
  head.operands = c.operands.format_in_head();
  head.order = c.knobs.gemm;
  c.fresh(b.logits);
  c.begin(Op::head);
  c.ops.linear_forward(head);
  c.output("logits", b.logits);
  c.fresh(b.losses);
  if (tensor_parallel(c)) {
    vocabulary_parallel_loss(c, {b.losses, b.logits, b.targets});
    return;
  }
  c.begin(Op::cross_entropy);
  c.ops.cross_entropy({b.losses, b.logits, b.targets, c.model.vocabulary, c.gradient_scale,
                       c.knobs.generic_index_ops});
  c.show("losses", b.losses);
  c.output("dlogits", b.logits);
}

void fused_loss(StepContext& c) {
  if (tensor_parallel(c)) return fused_vocabulary_parallel_loss(c);
  const Activations& b = c.buffers;
  FusedLinearCrossEntropy call;
  call.losses = b.losses;
  call.dx = b.d_norm;
  call.dw = c.head_gradient();
  call.x = b.final_norm;
  call.w = c.head_operand();
  call.targets = b.targets;
  call.logits = b.logits;
  call.vocabulary = c.model.vocabulary;
  call.gradient_scale = c.gradient_scale;
  call.accumulate = c.accumulate;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.gemm);
  call.generic = c.knobs.generic_index_ops;
  call.operands = c.operands.format_in_head();
  c.fresh(b.logits);
  c.fresh(b.losses);
  c.fresh(b.d_norm);
  c.begin(Op::head_loss);
  c.ops.fused_linear_cross_entropy(call);
  c.show("losses", b.losses);
  c.output("dx", b.d_norm);
  c.probe.output(c.head_gradient_name(), call.dw, 0);
}

void head_linear_backward(StepContext& c) {
  const Activations& b = c.buffers;
  RowExchange x = start_gathering(c, "x", b.final_norm);
  const Tensor partial = partial_gradient(c, b.d_norm);
  c.fresh(partial);
  c.begin(Op::head);
  c.ops.linear_backward_input({partial,
                               b.logits,
                               c.head_operand(),
                               {},
                               false,
                               c.knobs.dynamic_schedule,
                               c.operands.format_in_head(),
                               c.knobs.gemm});
  c.output("dx", partial);
  RowExchange dx = start_adding(c, "dx", partial, b.d_norm);
  finish(c, x);
  c.begin(Op::head_weight);
  LinearBackwardWeight call;
  call.dw = c.head_gradient();
  call.dy = b.logits;
  call.x = x.result;
  call.accumulate = c.accumulate;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.gemm);
  call.operands = c.operands.format_in_head();
  c.ops.linear_backward_weight(call);
  c.probe.output(c.head_gradient_name(), call.dw, 0);
  finish(c, dx);
}

// What nobody wrote in this gradient copy yet and the embedding is going to add to.
void clear_table_gradients(StepContext& c) {
  if (c.accumulate) return;
  const bool head_wrote = c.model.tied_head && c.layout.head != kNoParameter;
  if (!head_wrote || c.parameters.apart()) c.ops.fill_bytes(c.gradient(c.layout.embedding), 0);
  if (c.layout.position != kNoParameter)
    c.ops.fill_bytes(used_positions(c, c.gradient(c.layout.position)), 0);
}

}  // namespace

void embedding_forward(StepContext& c) {
  const Activations& b = c.buffers;
  const Tensor partial = partial_output(c, b.input);
  // Ranks that share the table add up their rows; the positions come from the first.
  const Tensor positions = c.mesh.position().tp == 0 ? c.value(c.layout.position) : Tensor{};
  c.fresh(partial);
  c.begin(Op::embedding);
  c.ops.embedding_forward({partial, b.tokens, c.value(c.layout.embedding),
                           used_positions(c, positions), c.samples, table_part(c), c.places});
  c.output("y", partial);
  add_partials(c, "y", partial, b.input);
  if (c.model.dropout > 0) dropout(c, Op::embedding_dropout, 0, b.input, b.input);
}

void embedding_backward(StepContext& c) {
  const Activations& b = c.buffers;
  if (c.model.dropout > 0) dropout(c, Op::embedding_dropout, 0, b.d_residual, b.d_residual);
  const Tensor dy = gather_rows(c, "dy", b.d_residual);
  c.begin(Op::embedding);
  clear_table_gradients(c);
  EmbeddingBackward call;
  call.dtable = c.gradient(c.layout.embedding);
  call.dposition_table = used_positions(c, c.gradient(c.layout.position));
  call.dy = dy;
  call.tokens = b.tokens;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.embedding);
  call.generic = c.knobs.generic_index_ops;
  call.part = table_part(c);
  call.places = c.places;
  c.ops.embedding_backward(call);
  c.show_gradient(c.layout.embedding);
  c.show_gradient(c.layout.position);
}

void head_forward(StepContext& c, const Tensor& x) {
  const Activations& b = c.buffers;
  norm_forward(c, Op::final_norm, c.layout.final_norm, x,
               {b.final_norm, b.final_mean, b.final_rstd});
  if (c.knobs.fused_loss) {
    fused_loss(c);
  } else {
    separate_loss(c);
  }
  add_balance_losses(c);
  c.begin(Op::loss_sum);
  const Tensor sum = make_tensor(b.loss_sums.f32() + c.micro_batch, DType::f32, {1});
  c.ops.sum_scalar({sum, b.losses, 1.0, c.samples, c.sum(c.knobs.loss)});
  c.probe.output("sum", sum, 0);
}

void head_backward(StepContext& c, const Tensor& x) {
  const Activations& b = c.buffers;
  if (!c.knobs.fused_loss) head_linear_backward(c);
  norm_backward(c, Op::final_norm, c.layout.final_norm, x,
                {b.final_norm, b.final_mean, b.final_rstd}, false);
  c.reduction.complete_from(c, c.parameters.offset(c.layout.final_norm.gamma));
}

}  // namespace dettax
