#pragma once

#include <cstdint>

namespace dettax {

// Adds `count` rows of `width` floats into the first by the binary tree aligned at row 0:
// ((0+1)+(2+3))+..., so that eight rows give what two calls with four rows give when their results
// are added. Only columns [begin, end) are touched. The other rows are left with partial sums.
inline void tree_sum(float* rows, int64_t count, int64_t width, int64_t begin, int64_t end) {
  for (int64_t step = 1; step < count; step *= 2) {
    for (int64_t r = 0; r + step < count; r += 2 * step) {
      float* to = rows + r * width;
      const float* from = rows + (r + step) * width;
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  }
}
inline void tree_sum(float* rows, int64_t count, int64_t width) {
  tree_sum(rows, count, width, 0, width);
}

}  // namespace dettax
