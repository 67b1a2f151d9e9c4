#include "harness/train/chunk_pass.h"

#include "harness/train/ends.h"
#include "harness/train/layer.h"
#include "harness/train/moe_layer.h"
#include "harness/train/recompute.h"

namespace dettax {
namespace {

const Tensor& input_of(const StepContext& c, const Chunk& chunk, int64_t layer) {
  return layer == chunk.first_layer ? c.buffers.input
                                    : c.buffers.layers[static_cast<size_t>(layer - 1)].output;
}

void head(StepContext& c, const Tensor& x) {
  c.phase = Phase::forward;
  head_forward(c, x);
  c.phase = Phase::backward;
  head_backward(c, x);
}

}  // namespace

void chunk_forward(StepContext& c, const Chunk& chunk) {
  if (chunk.embedding) embedding_forward(c);
  begin_balance_losses(c);
  for (int64_t i = chunk.first_layer; i < chunk.end_layer(); ++i) {
    c.layer = i;
    layer_forward(c, input_of(c, chunk, i));
  }
  c.layer = kNoLayer;
}

void chunk_backward(StepContext& c, const Chunk& chunk) {
  if (chunk.head) head(c, input_of(c, chunk, chunk.end_layer()));
  for (int64_t i = chunk.last_layer(); i >= chunk.first_layer; --i) {
    c.layer = i;
    recompute_layer(c, input_of(c, chunk, i));
    layer_backward(c, input_of(c, chunk, i));
  }
  c.layer = kNoLayer;
  if (chunk.embedding) embedding_backward(c);
}

}  // namespace dettax
