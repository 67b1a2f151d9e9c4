#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/cpu/embedding_sort.h"
#include "harness/device/cpu/team.h"
#include "harness/device/ops.h"

namespace dettax {

// The contributions to one row: rows positions[0..count) of dy, columns [begin, end). Rows that were
// gathered lie in dy in this order already, and their positions only say of which sample they are.
struct RowSum {
  float* to;
  const float* dy;
  int64_t width;
  const int32_t* positions;
  int64_t count;
  int64_t tokens_per_sample;
  size_t begin, end;
  bool gathered = false;
};
using RowKernel = void (*)(const RowSum&);

// A chain over the positions, or a chain in each sample and then the tree over samples; the sum is
// added to the row.
RowKernel chain_of_rows();
RowKernel tree_of_rows();

// What all variants need to know.
struct EmbeddingGradient {
  float* table;
  float* position_table;  // or null
  const float* dy;
  const int32_t* tokens;
  int64_t rows, width, samples;
  TokenPlaces places;
  HeldIds ids;
  int64_t tokens_per_sample() const { return rows / samples; }
  float* table_row(int32_t token) const { return table + (token - ids.first) * width; }
  float* position_row(int64_t row_of_sample) const {
    return position_table + places.position(row_of_sample, tokens_per_sample()) * width;
  }
  RowSum row_sum(float* to, const int32_t* positions, int64_t count) const {
    return {to, dy, width, positions, count, tokens_per_sample(), 0, static_cast<size_t>(width)};
  }
};

void embedding_backward_on_arrival(Team& team, const EmbeddingGradient& gradient, bool dynamic);
void embedding_backward_in_order(Team& team, const EmbeddingGradient& gradient, RowKernel kernel);
// The position table's part of the latter.
void position_rows_in_order(Team& team, const EmbeddingGradient& gradient, RowKernel kernel);

}  // namespace dettax
