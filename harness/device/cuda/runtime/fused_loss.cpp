// The head and the loss by chunks of rows: logits, loss and their gradient in one scratch buffer that never holds the whole batch, then
// dx and dw from it. Logits are of the type of what they come from.

#include <algorithm>

#include "harness/device/checks.h"
#include "harness/device/cuda/runtime/weight_gradient.h"

namespace dettax {
namespace {

Tensor element_range(const Tensor& t, int64_t begin, int64_t count) {
  auto* data = static_cast<std::byte*>(t.data) + begin * static_cast<int64_t>(size_of(t.type));
  return make_tensor(data, t.type, {count});
}

}  // namespace

void MatrixProducts::fused_linear_cross_entropy(const FusedLinearCrossEntropy& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.w.rows();
  const Order order = call.sum.order;
  const bool dynamic = call.sum.dynamic_schedule;
  const int64_t chunk = fused_loss_chunk_rows(rows, width, call.samples, order);
  require(call.w.columns() == call.x.columns() && call.dw.count() == call.w.count() &&
              call.dx.count() == call.x.count() && call.losses.count() == rows &&
              call.targets.count() == rows && call.logits.count() >= chunk * width,
          "fused_linear_cross_entropy");
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const Tensor logits = make_tensor(call.logits.data, call.x.type, {count, width});
    const Tensor x = row_range(call.x, begin, count);
    linear_forward({.y = logits,
                    .x = x,
                    .w = call.w,
                    .bias = {},
                    .residual = {},
                    .pre_activation = {},
                    .dynamic_schedule = dynamic,
                    .operands = call.operands,
                    .order = order});
    kernels_.cross_entropy({.losses = element_range(call.losses, begin, count),
                            .logits = logits,
                            .targets = element_range(call.targets, begin, count),
                            .vocabulary = call.vocabulary,
                            .gradient_scale = call.gradient_scale,
                            .generic = call.generic});
    linear_backward_input({.dx = row_range(call.dx, begin, count),
                           .dy = logits,
                           .w = call.w,
                           .gelu_pre_activation = {},
                           .dynamic_schedule = dynamic,
                           .operands = call.operands,
                           .order = order});
    linear_backward_weight({.dw = call.dw,
                            .dbias = {},
                            .dy = logits,
                            .x = x,
                            .accumulate = call.accumulate || begin > 0,
                            .samples = order == Order::invariant ? call.samples : 1,
                            .sum = call.sum,
                            .operands = call.operands});
  }
}

}  // namespace dettax
