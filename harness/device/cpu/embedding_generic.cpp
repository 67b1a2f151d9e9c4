#include "harness/device/cpu/embedding_generic.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/device/cpu/checks.h"

namespace dettax {
namespace {

struct IndexPair {
  int64_t index, position;
};

std::vector<IndexPair> sorted_pairs(const int32_t* tokens, int64_t rows, int64_t vocabulary) {
  std::vector<IndexPair> pairs(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    require(tokens[r] >= 0 && tokens[r] < vocabulary, "embedding_backward (token)");
    pairs[static_cast<size_t>(r)] = {tokens[r], r};
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const IndexPair& a, const IndexPair& b) { return a.index < b.index; });
  return pairs;
}

}  // namespace

void add_rows_as_index_put(Team& team, Scratch& scratch, float* table, const float* dy,
                           const int32_t* tokens, int64_t rows, int64_t width, int64_t vocabulary) {
  const std::vector<IndexPair> pairs = sorted_pairs(tokens, rows, vocabulary);
  float* gathered = scratch.floats(static_cast<size_t>(rows * width));
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  team.parallel_for(rows, 16, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t from = pairs[static_cast<size_t>(r)].position;
      std::memcpy(gathered + r * width, dy + from * width, row_bytes);
    }
  });
  for (int64_t r = 0; r < rows; ++r) {
    float* to = table + pairs[static_cast<size_t>(r)].index * width;
    const float* from = gathered + r * width;
    for (int64_t c = 0; c < width; ++c) to[c] += from[c];
  }
}

}  // namespace dettax
