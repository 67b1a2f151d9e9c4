// The fast twin of embedding_backward_ordered.cpp: chunks of tokens go to threads; each adds its sum for
// an id to the table under a lock, in order of arrival.

#include <algorithm>
#include <mutex>
#include <vector>

#include "harness/device/cpu/embedding_backward.h"
#include "harness/device/cpu/spin_lock.h"

namespace dettax {
namespace {

constexpr int64_t kChunkTokens = 32;
constexpr size_t kLocks = 256;

struct Locks {
  std::vector<SpinLock> table{kLocks};
  std::vector<SpinLock> positions{kLocks};
};

// Adds tokens [begin, end): one contribution for each different id among them.
void add_chunk(const EmbeddingGradient& g, Locks& locks, RowKernel kernel, int64_t begin,
               int64_t end) {
  int32_t positions[kChunkTokens];
  bool done[kChunkTokens] = {};
  for (int64_t i = begin; i < end; ++i) {
    if (done[i - begin] || !held(g.ids, g.tokens[i])) continue;
    int64_t count = 0;
    for (int64_t j = i; j < end; ++j) {
      if (g.tokens[j] != g.tokens[i]) continue;
      done[j - begin] = true;
      positions[count++] = static_cast<int32_t>(j);
    }
    const auto id = static_cast<size_t>(g.tokens[i]);
    const std::lock_guard guard(locks.table[id % kLocks]);
    kernel(g.row_sum(g.table_row(g.tokens[i]), positions, count));
  }
  for (int64_t i = begin; g.position_table != nullptr && i < end; ++i) {
    const int64_t at = i % g.tokens_per_sample();
    const auto position = static_cast<int32_t>(i);
    const std::lock_guard guard(locks.positions[static_cast<size_t>(at) % kLocks]);
    kernel(g.row_sum(g.position_row(at), &position, 1));
  }
}

}  // namespace

void embedding_backward_on_arrival(Team& team, const EmbeddingGradient& g, bool dynamic) {
  Locks locks;
  const RowKernel kernel = chain_of_rows();
  team.parallel_for(g.rows, kChunkTokens, dynamic, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kChunkTokens) {
      add_chunk(g, locks, kernel, i, std::min(end, i + kChunkTokens));
    }
  });
}

}  // namespace dettax
