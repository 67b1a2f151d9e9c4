#include "harness/train/ends.h"

#include "harness/train/layer.h"

namespace dettax {
namespace {

// The rows of the position table that this sequence length uses.
Tensor used_positions(const StepContext& c, const Tensor& table) {
  return table ? make_tensor(table.data, table.type, {c.sequence_length, c.model.width}) : table;
}

Tensor head_gradient(const StepContext& c) { return c.parameters.head_gradient(c.gradient_copy); }

std::string_view head_gradient_name(const StepContext& c) {
  return c.model.tied_head && !c.parameters.apart() ? "embedding.weight.grad" : "head.weight.grad";
}

void separate_loss(StepContext& c) {
  const Activations& b = c.buffers;
  LinearForward head;
  head.y = b.logits;
  head.x = b.final_norm;
  head.w = c.value(c.layout.head);
  head.dynamic_schedule = c.knobs.dynamic_schedule;
  c.fresh(b.logits);
  c.begin(Op::head);
  c.ops.linear_forward(head);
  c.show("logits", b.logits);
  c.fresh(b.losses);
  c.begin(Op::cross_entropy);
  c.ops.cross_entropy({b.losses, b.logits, b.targets, c.model.vocabulary, c.gradient_scale,
                       c.knobs.generic_index_ops});
  c.show("losses", b.losses);
  c.show("dlogits", b.logits);
}

void fused_loss(StepContext& c) {
  const Activations& b = c.buffers;
  FusedLinearCrossEntropy call;
  call.losses = b.losses;
  call.dx = b.d_norm;
  call.dw = head_gradient(c);
  call.x = b.final_norm;
  call.w = c.value(c.layout.head);
  call.targets = b.targets;
  call.logits = b.logits;
  call.vocabulary = c.model.vocabulary;
  call.gradient_scale = c.gradient_scale;
  call.accumulate = c.accumulate;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.gemm);
  call.generic = c.knobs.generic_index_ops;
  c.fresh(b.logits);
  c.fresh(b.losses);
  c.fresh(b.d_norm);
  c.begin(Op::head_loss);
  c.ops.fused_linear_cross_entropy(call);
  c.show("losses", b.losses);
  c.show("dx", b.d_norm);
  c.probe.output(head_gradient_name(c), call.dw, 0);
}

void head_linear_backward(StepContext& c) {
  const Activations& b = c.buffers;
  c.fresh(b.d_norm);
  c.begin(Op::head);
  c.ops.linear_backward_input(
      {b.d_norm, b.logits, c.value(c.layout.head), {}, false, c.knobs.dynamic_schedule});
  c.show("dx", b.d_norm);
  c.begin(Op::head_weight);
  LinearBackwardWeight call;
  call.dw = head_gradient(c);
  call.dy = b.logits;
  call.x = b.final_norm;
  call.accumulate = c.accumulate;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.gemm);
  c.ops.linear_backward_weight(call);
  c.probe.output(head_gradient_name(c), call.dw, 0);
}

// What nobody wrote in this gradient copy yet and the embedding is going to add to.
void clear_table_gradients(StepContext& c) {
  if (c.accumulate) return;
  if (!c.model.tied_head || c.parameters.apart())
    c.ops.fill_bytes(c.gradient(c.layout.embedding), 0);
  if (c.layout.position != kNoParameter)
    c.ops.fill_bytes(used_positions(c, c.gradient(c.layout.position)), 0);
}

}  // namespace

void embedding_forward(StepContext& c) {
  const Activations& b = c.buffers;
  c.fresh(b.embedding);
  c.begin(Op::embedding);
  c.ops.embedding_forward({b.embedding, b.tokens, c.value(c.layout.embedding),
                           used_positions(c, c.value(c.layout.position)), c.samples});
  c.show("y", b.embedding);
  if (c.model.dropout > 0) dropout(c, Op::embedding_dropout, 0, b.embedding, b.embedding);
}

void embedding_backward(StepContext& c) {
  const Activations& b = c.buffers;
  if (c.model.dropout > 0) dropout(c, Op::embedding_dropout, 0, b.d_residual, b.d_residual);
  c.begin(Op::embedding);
  clear_table_gradients(c);
  EmbeddingBackward call;
  call.dtable = c.gradient(c.layout.embedding);
  call.dposition_table = used_positions(c, c.gradient(c.layout.position));
  call.dy = b.d_residual;
  call.tokens = b.tokens;
  call.samples = c.samples;
  call.sum = c.sum(c.knobs.embedding);
  call.generic = c.knobs.generic_index_ops;
  c.ops.embedding_backward(call);
  c.show_gradient(c.layout.embedding);
  c.show_gradient(c.layout.position);
}

void head_forward(StepContext& c, const Tensor& x, int64_t micro_batch) {
  const Activations& b = c.buffers;
  norm_forward(c, Op::final_norm, c.layout.final_norm, x,
               {b.final_norm, b.final_mean, b.final_rstd});
  if (c.knobs.fused_loss) {
    fused_loss(c);
  } else {
    separate_loss(c);
  }
  c.begin(Op::loss_sum);
  const Tensor sum = make_tensor(b.loss_sums.f32() + micro_batch, DType::f32, {1});
  c.ops.sum_scalar({sum, b.losses, 1.0, c.samples, c.sum(c.knobs.loss)});
  c.probe.output("sum", sum, 0);
}

void head_backward(StepContext& c, const Tensor& x) {
  const Activations& b = c.buffers;
  if (!c.knobs.fused_loss) head_linear_backward(c);
  norm_backward(c, Op::final_norm, c.layout.final_norm, x,
                {b.final_norm, b.final_mean, b.final_rstd}, false);
}

}  // namespace dettax
