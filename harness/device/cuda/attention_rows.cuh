#pragma once

// The kernels of attention's backward pass that work on one row after the other: before the tiles and after them.

#include "harness/device/cuda/attention.cuh"

namespace dettax {

// Eight lanes for each query and head, in the order of memory.
struct QueryHead {
  int64_t sample, head;
  int row;
};
__device__ inline QueryHead query_head(const AttentionSizes& s, int64_t item) {
  const int64_t query = item / s.heads;
  return {query / s.queries, item % s.heads, static_cast<int>(query % s.queries)};
}
__host__ __device__ inline int64_t query_heads(const AttentionSizes& s) {
  return s.all_heads() * s.queries;
}

// Clears dqueries too, if given.
template <class T>
__global__ void project_rows(AttentionGradient<T> a, const T* outputs, float* projection,
                             float* dqueries) {
  const AttentionSizes& s = a.s;
  const int64_t out_step = int64_t{s.heads} * s.width;
  const int lane = thread_index() % 8;
  for (int64_t first = grid_warp() * 4; first < query_heads(s); first += grid_warps() * 4) {
    const int64_t item = first + lane_index() / 8;
    const bool exists = item < query_heads(s);
    const QueryHead at = query_head(s, exists ? item : first);
    const auto dout = s.queries_of(a.dout, out_step, at.sample, at.head);
    const auto out = s.queries_of(outputs, out_step, at.sample, at.head);
    float sum = 0;
    for (int column = lane * 4; column < s.width; column += 32) {
      const auto left = dout.read(at.row, column);
      const auto right = out.read(at.row, column);
      for (int k = 0; k < 4; ++k) sum = fmaf(left.at[k], right.at[k], sum);
      if (dqueries != nullptr && exists) {
        s.queries_of(dqueries, a.dqueries_step, at.sample, at.head)
            .write(at.row, column, zeros<4>());
      }
    }
#pragma unroll
    for (int apart = 1; apart < 8; apart *= 2) {
      sum += __shfl_xor_sync(kWholeWarp, sum, apart);
    }
    if (exists && lane == 0) projection[s.statistics_of(at.sample, at.head) + at.row] = sum;
  }
}

// The f32 sums of dQ to where they belong.
template <class T>
__global__ void store_queries(AttentionGradient<T> a) {
  const AttentionSizes& s = a.s;
  const int64_t lanes = query_heads(s) * 8;
  for (int64_t i = grid_thread(); i < lanes; i += grid_threads()) {
    const QueryHead at = query_head(s, i / 8);
    const auto sums = s.queries_of(a.dqueries, a.dqueries_step, at.sample, at.head);
    const auto to = s.queries_of(a.dqkv, s.step, at.sample, at.head);
    for (auto column = static_cast<int>(i % 8) * 4; column < s.width; column += 32) {
      const auto four = sums.read(at.row, column);
      if (s.causal) {
        to.write(at.row, column, four);
      } else {
        to.add(at.row, column, four);
      }
    }
  }
}

}  // namespace dettax
