#include <algorithm>

#include "harness/device/ops.h"

namespace dettax {
namespace {

constexpr int64_t kLogitsBytes = 32 << 20;
// Each chunk streams the weights twice and their gradient once, so it must not be too short.
constexpr int64_t kLeastRows = 256;

}  // namespace

// invariant: all rows. A tree over samples cannot be continued from chunk to chunk without a copy of
// the weight gradient for each of its levels, which would cost more memory than the logits.
int64_t fused_loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t, Order order) {
  if (order == Order::invariant) return rows;
  const int64_t most = std::max(kLeastRows, kLogitsBytes / (4 * vocabulary));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

}  // namespace dettax
