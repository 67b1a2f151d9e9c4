#include "harness/train/vocabulary_parallel.h"

#include <algorithm>

#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

Tensor elements_of(const Tensor& t, int64_t first, int64_t count) {
  return make_tensor(static_cast<char*>(t.data) + first * 4, t.type, {count});
}

// The largest logits of all ranks, [tp,M].
Tensor gather_maxima(StepContext& c, const LossRows& rows) {
  Communicator& group = c.mesh.tensor();
  const int64_t count = rows.losses.count();
  const Tensor all = make_tensor(c.buffers.maxima.data, DType::f32, {group.size(), count});
  const Tensor own = elements_of(all, group.rank() * count, count);
  c.begin(Op::cross_entropy);
  c.ops.cross_entropy_maxima({own, rows.logits, c.sizes.real_vocabulary});
  c.begin(Op::vocabulary_maxima);
  c.device.synchronize();
  group.all_gather(own.data, all.data, own.bytes());
  c.show("maxima", all);
  return all;
}

Tensor reduce_sums(StepContext& c, const LossRows& rows, const Tensor& maxima) {
  const Tensor sums = make_tensor(c.buffers.row_sums.data, DType::f32, {2, rows.losses.count()});
  c.begin(Op::cross_entropy);
  c.ops.cross_entropy_sums({sums, rows.logits, maxima, rows.targets, c.sizes.first_token,
                            c.sizes.real_vocabulary, c.knobs.generic_index_ops});
  c.show("sums", sums);
  c.begin(Op::vocabulary_sums);
  c.device.synchronize();
  c.mesh.tensor().all_reduce(sums.f32(), sums.count(), c.knobs.collectives);
  c.show("sums", sums);
  return sums;
}

// One chunk: rows [begin, begin + count).
void fused_chunk(StepContext& c, const Tensor& all_x, const Tensor& all_dx, int64_t begin,
                 int64_t count) {
  const Activations& b = c.buffers;
  const Tensor weight = c.head_operand();
  const Tensor x = rows_of(all_x, begin, count);
  const LossRows rows{
      elements_of(b.losses, begin, count),
      make_tensor(b.logits.data, DType::f32, {count, c.sizes.vocabulary}),
      elements_of(b.targets, begin, count),
  };
  LinearForward head;
  head.y = rows.logits;
  head.x = x;
  head.w = weight;
  head.dynamic_schedule = c.knobs.dynamic_schedule;
  head.operands = c.operands.format_in_head();
  head.order = c.knobs.gemm;
  c.begin(Op::head_loss);
  c.ops.linear_forward(head);
  vocabulary_parallel_loss(c, rows);
  c.begin(Op::head_loss);
  c.ops.linear_backward_input({rows_of(all_dx, begin, count),
                               rows.logits,
                               weight,
                               {},
                               false,
                               c.knobs.dynamic_schedule,
                               c.operands.format_in_head(),
                               c.knobs.gemm});
  LinearBackwardWeight call;
  call.dw = c.head_gradient();
  call.dy = rows.logits;
  call.x = x;
  call.accumulate = c.accumulate || begin > 0;
  call.samples = c.knobs.gemm == Order::invariant ? c.samples : 1;  // then there is one chunk
  call.sum = c.sum(c.knobs.gemm);
  call.operands = c.operands.format_in_head();
  c.ops.linear_backward_weight(call);
}

}  // namespace

void vocabulary_parallel_loss(StepContext& c, const LossRows& rows) {
  const Tensor maxima = gather_maxima(c, rows);
  const Tensor sums = reduce_sums(c, rows, maxima);
  c.begin(Op::cross_entropy);
  c.ops.cross_entropy_from_sums({rows.losses, rows.logits, sums, rows.targets, c.sizes.first_token,
                                 c.sizes.real_vocabulary, c.gradient_scale,
                                 c.knobs.generic_index_ops});
  c.show("losses", rows.losses);
  c.output("dlogits", rows.logits);
}

void fused_vocabulary_parallel_loss(StepContext& c) {
  const Activations& b = c.buffers;
  const Tensor x = gather_rows(c, "x", b.final_norm);
  const Tensor dx = partial_gradient(c, b.d_norm);
  c.fresh(b.logits);
  c.fresh(b.losses);
  c.fresh(dx);
  const int64_t chunk = b.logits.rows();
  for (int64_t begin = 0; begin < c.rows(); begin += chunk)
    fused_chunk(c, x, dx, begin, std::min(chunk, c.rows() - begin));
  c.output("dx", dx);
  c.probe.output(c.head_gradient_name(), c.head_gradient(), 0);
  add_partials(c, "dx", dx, b.d_norm);
}

}  // namespace dettax
