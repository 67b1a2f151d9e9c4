#include "harness/device/cpu/embedding_generic.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dettax {
namespace {

struct IndexPair {
  int64_t index, position;
};

std::vector<IndexPair> sorted_pairs(const int32_t* tokens, int64_t rows, const HeldIds& ids) {
  std::vector<IndexPair> pairs;
  pairs.reserve(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    if (held(ids, tokens[r])) pairs.push_back({tokens[r] - ids.first, r});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const IndexPair& a, const IndexPair& b) { return a.index < b.index; });
  return pairs;
}

}  // namespace

void add_rows_as_index_put(Team& team, Scratch& scratch, float* table, const float* dy,
                           const int32_t* tokens, int64_t rows, int64_t width, const HeldIds& ids) {
  const std::vector<IndexPair> pairs = sorted_pairs(tokens, rows, ids);
  const auto count = static_cast<int64_t>(pairs.size());
  if (count == 0) return;
  float* gathered = scratch.floats(static_cast<size_t>(count * width));
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  team.parallel_for(count, 16, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t from = pairs[static_cast<size_t>(r)].position;
      std::memcpy(gathered + r * width, dy + from * width, row_bytes);
    }
  });
  for (int64_t r = 0; r < count; ++r) {
    float* to = table + pairs[static_cast<size_t>(r)].index * width;
    const float* from = gathered + r * width;
    for (int64_t c = 0; c < width; ++c) to[c] += from[c];
  }
}

}  // namespace dettax
