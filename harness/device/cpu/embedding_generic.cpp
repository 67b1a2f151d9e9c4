#include "harness/device/cpu/embedding_generic.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dettax {
namespace {

struct IndexPair {
  int64_t index, position;
};

std::vector<IndexPair> sorted_pairs(const EmbeddingGradient& g) {
  std::vector<IndexPair> pairs;
  pairs.reserve(static_cast<size_t>(g.rows));
  for (int64_t r = 0; r < g.rows; ++r) {
    if (held(g.ids, g.tokens[r])) pairs.push_back({g.tokens[r] - g.ids.first, r});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const IndexPair& a, const IndexPair& b) { return a.index < b.index; });
  return pairs;
}

// Rows of dy in the order of the pairs.
float* gather(Team& team, Scratch& scratch, const EmbeddingGradient& g,
              const std::vector<IndexPair>& pairs) {
  const auto count = static_cast<int64_t>(pairs.size());
  float* gathered = scratch.floats(static_cast<size_t>(count * g.width));
  const auto row_bytes = static_cast<size_t>(g.width) * sizeof(float);
  team.parallel_for(count, 16, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t from = pairs[static_cast<size_t>(r)].position;
      std::memcpy(gathered + r * g.width, g.dy + from * g.width, row_bytes);
    }
  });
  return gathered;
}

}  // namespace

void add_rows_as_index_put(Team& team, Scratch& scratch, const EmbeddingGradient& g) {
  const std::vector<IndexPair> pairs = sorted_pairs(g);
  if (pairs.empty()) return;
  const float* from = gather(team, scratch, g, pairs);
  for (const IndexPair& pair : pairs) {
    float* to = g.table + pair.index * g.width;
    for (int64_t c = 0; c < g.width; ++c) to[c] += from[c];
    from += g.width;
  }
}

void add_rows_as_index_put(Team& team, Scratch& scratch, const EmbeddingGradient& g,
                           RowKernel kernel) {
  const std::vector<IndexPair> pairs = sorted_pairs(g);
  if (pairs.empty()) return;
  const float* gathered = gather(team, scratch, g, pairs);
  std::vector<int32_t> positions;
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    positions.clear();
    auto end = begin;
    for (; end != pairs.end() && end->index == begin->index; ++end)
      positions.push_back(static_cast<int32_t>(end->position));
    RowSum sum = g.row_sum(g.table + begin->index * g.width, positions.data(), end - begin);
    sum.dy = gathered + (begin - pairs.begin()) * g.width;
    sum.gathered = true;
    kernel(sum);
    begin = end;
  }
}

}  // namespace dettax
