#pragma once

// What attention's kernels share: where heads lie, tiles in shared memory, and the three products of tiles, in which each thread has a
// small matrix of sums in registers and reads 16 bytes at a time. All sums are in f32, whatever the tensors hold.

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "harness/device/attention_shape.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

// Rows of one head of one sample, `width` numbers each.
template <class T>
struct HeadRows {
  T* first;
  int64_t step;
  int count, width;
  bool by_four;  // four numbers at once: each row and each head begins where that is allowed

  // Four columns of a row; what lies beyond the head or its rows is 0.
  __device__ Floats<4> read(int row, int column) const {
    auto four = zeros<4>();
    if (row >= count || column >= width) return four;
    const T* from = first + row * step + column;
    if (by_four) return load<4>(from);
    for (int k = 0; k < 4; ++k) {
      if (column + k < width) four.at[k] = to_float(from[k]);
    }
    return four;
  }
  __device__ void write(int row, int column, const Floats<4>& four) const {
    if (row >= count || column >= width) return;
    T* to = first + row * step + column;
    if (by_four) return store(to, four);
    for (int k = 0; k < 4; ++k) {
      if (column + k < width) to[k] = stored<T>(four.at[k]);
    }
  }
  __device__ void add(int row, int column, Floats<4> four) const {
    const auto old = read(row, column);
    for (int k = 0; k < 4; ++k) four.at[k] += old.at[k];
    write(row, column, four);
  }
};

// The shape of a call (attention_shape.h) for kernels.
struct AttentionSizes {
  int64_t samples, tokens, key_tokens, first_query, first_key, step, key_step;
  int heads, key_value_heads, group, width, queries, keys;
  bool causal, by_four;

  __host__ __device__ int64_t all_heads() const { return samples * heads; }
  __host__ __device__ int64_t all_key_heads() const { return samples * key_value_heads; }
  // A head's rows of a matrix with a row for each token and all query heads from `matrix` on.
  template <class T>
  __device__ HeadRows<T> queries_of(T* matrix, int64_t matrix_step, int64_t sample,
                                    int64_t head) const {
    return {matrix + (sample * tokens + first_query) * matrix_step + head * width, matrix_step,
            queries, width, by_four};
  }
  template <class T>
  __device__ HeadRows<T> keys_of(T* keys_values, int64_t sample, int64_t key_head) const {
    return {keys_values + (sample * key_tokens + first_key) * key_step + key_head * width, key_step,
            keys, width, by_four};
  }
  template <class T>
  __device__ HeadRows<T> values_of(T* keys_values, int64_t sample, int64_t key_head) const {
    return keys_of(keys_values, sample, key_value_heads + key_head);
  }
  // Where the first query is among [samples, heads, tokens].
  __device__ int64_t statistics_of(int64_t sample, int64_t head) const {
    return (sample * heads + head) * tokens + first_query;
  }
  // Of a tile of keys [first, first + count) that a row of queries meets from first_query on: whether some pairs do not count.
  __device__ bool partly_hidden(int query, int key, int key_count) const {
    return key + key_count > keys || (causal && key + key_count - 1 > query);
  }
  __device__ bool hidden(int query, int key) const {
    return key >= keys || (causal && key > query);
  }
};

// What the backward pass works on.
template <class T>
struct AttentionGradient {
  AttentionSizes s;
  const T* qkv;
  const T* keys_values;
  const T* dout;
  const float* log_sum_exp;
  const float* projection;  // [samples, heads, tokens]: the sum over a row of dout * out
  T* dqkv;
  T* dkeys_values;  // as keys_values lie
  float*
      dqueries;  // of the fast twin: what atomics add to, the query heads of rows of dqueries_step
  int64_t dqueries_step;
  float scale;
};

template <class T>
bool four_at_once(std::initializer_list<const void*> pointers,
                  std::initializer_list<int64_t> steps) {
  return std::all_of(
             pointers.begin(), pointers.end(),
             [](const void* p) { return reinterpret_cast<uintptr_t>(p) % (4 * sizeof(T)) == 0; }) &&
         std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step % 4 == 0; });
}
template <class T>
AttentionSizes attention_sizes(const AttentionShape& s,
                               std::initializer_list<const void*> pointers) {
  const auto count = [](size_t n) {
    if (n > INT32_MAX / 2) {
      throw Error(ErrorKind::unsupported,
                  "sequences of 2^30 tokens or more are not implemented on CUDA");
    }
    return static_cast<int>(n);
  };
  const auto number = [](size_t n) { return static_cast<int64_t>(n); };
  return {.samples = number(s.samples),
          .tokens = number(s.tokens),
          .key_tokens = number(s.key_tokens),
          .first_query = number(s.first_query),
          .first_key = number(s.first_key),
          .step = number(s.step),
          .key_step = number(s.key_step),
          .heads = count(s.heads),
          .key_value_heads = count(s.key_value_heads),
          .group = count(s.group()),
          .width = count(s.width),
          .queries = count(s.queries),
          .keys = count(s.keys),
          .causal = s.causal,
          .by_four = four_at_once<T>(pointers, {number(s.width)})};
}

// f(integral_constant) with the width that tiles have: the head's, and zeros behind it.
template <class F>
void by_head_width(size_t width, const F& f) {
  if (width <= 32) return f(std::integral_constant<int, 32>());
  if (width <= 64) return f(std::integral_constant<int, 64>());
  if (width <= 96) return f(std::integral_constant<int, 96>());
  if (width <= 128) return f(std::integral_constant<int, 128>());
  if (width <= 256) return f(std::integral_constant<int, 256>());
  throw Error(ErrorKind::unsupported, "attention heads of " + std::to_string(width) +
                                          " numbers are not implemented on CUDA; at most 256 are");
}

// Floats from a row of a tile to the next: rows begin 4 banks apart, so that 8 lanes which read 16 bytes of a row each meet no bank
// twice.
template <int kWidth>
inline constexpr int kTileStep = kWidth + 4;

// kInFlight: loads that a thread begins before it waits for the first; registers are what bounds it.
template <int kRows, int kWidth, int kThreadCount, int kInFlight, class T>
__device__ void load_tile(float* tile, const HeadRows<T>& rows, int first) {
  constexpr int kFours = kWidth / 4;
#pragma unroll kInFlight
  for (int i = thread_index(); i < kRows * kFours; i += kThreadCount) {
    const int row = i / kFours;
    const int column = i % kFours * 4;
    store(tile + row * kTileStep<kWidth> + column, rows.read(first + row, column));
  }
}

// A thread's part of a tile of scores: rows and columns kRowsApart and kColumnsApart from each other.
template <int kRows, int kColumns>
struct Scores {
  float at[static_cast<size_t>(kRows)][static_cast<size_t>(kColumns)];
};

// The products of rows of two tiles; left and right begin with the thread's first.
template <int kWidth, int kRows, int kRowsApart, int kColumns, int kColumnsApart>
__device__ Scores<kRows, kColumns> row_products(const float* left, const float* right) {
  Scores<kRows, kColumns> sums;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums.at[i][j] = 0.0f;
  }
#pragma unroll 1
  for (int c = 0; c < kWidth; c += 4) {
    Floats<4> rows[static_cast<size_t>(kRows)];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      rows[i] = load<4>(left + i * kRowsApart * kTileStep<kWidth> + c);
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const auto column = load<4>(right + j * kColumnsApart * kTileStep<kWidth> + c);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          sums.at[i][j] = fmaf(rows[i].at[k], column.at[k], sums.at[i][j]);
        }
      }
    }
  }
  return sums;
}

// Columns of a head that a thread sums for kRows rows: kChunks times four, the chunks of neighbouring threads side by side.
template <int kRows, int kChunks>
struct RowSums {
  Floats<4> at[static_cast<size_t>(kRows)][static_cast<size_t>(kChunks)];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) at[i][c] = zeros<4>();
    }
  }
  __device__ void add(int row, int chunk, float factor, const Floats<4>& four) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      at[row][chunk].at[k] = fmaf(factor, four.at[k], at[row][chunk].at[k]);
    }
  }
  // f(row, column, four sums)
  template <int kLanes, class F>
  __device__ void for_each(int first_column, const F& f) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) f(i, first_column + c * kLanes * 4, at[i][c]);
    }
  }
};

// sums[i] += over k < depth of weights[its row i][k] * rows[k]; depth is a multiple of 4. kLanes threads side by side share a row.
template <int kWidth, int kWeightStep, int kRowsApart, int kLanes, int kRows, int kChunks>
__device__ void add_weighted_rows(const float* weights, const float* rows, int depth,
                                  RowSums<kRows, kChunks>& sums) {
#pragma unroll 1
  for (int k = 0; k < depth; k += 4) {
    Floats<4> factors[static_cast<size_t>(kRows)];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      factors[i] = load<4>(weights + i * kRowsApart * kWeightStep + k);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const auto four = load<4>(rows + (k + e) * kTileStep<kWidth> + c * kLanes * 4);
#pragma unroll
        for (int i = 0; i < kRows; ++i) sums.add(i, c, factors[i].at[e], four);
      }
    }
  }
}

// sums[i] += over k < depth of weights[k][i] * rows[k], for kRows neighbouring columns of the weights.
template <int kWidth, int kWeightStep, int kLanes, int kRows, int kChunks>
__device__ void add_weighted_columns(const float* weights, const float* rows, int depth,
                                     RowSums<kRows, kChunks>& sums) {
#pragma unroll 1
  for (int k = 0; k < depth; ++k) {
    const auto factors = load<kRows>(weights + k * kWeightStep);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const auto four = load<4>(rows + k * kTileStep<kWidth> + c * kLanes * 4);
#pragma unroll
      for (int i = 0; i < kRows; ++i) sums.add(i, c, factors.at[i], four);
    }
  }
}

__device__ inline int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a < b ? b : a; }
__device__ inline int round_up_to_four(int n) { return (n + 3) / 4 * 4; }

}  // namespace dettax
