#pragma once

// A tile of queries against a tile of keys in attention's backward pass: what the blocks that own keys and those that own queries share.

#include "harness/device/cuda/attention.cuh"

namespace dettax {

// A block's tiles of queries and keys. Its 256 threads are a square of 16 x 16 over scores: every 16th query and key. Over columns of
// a head they are groups of kLanes, of which each lane has four columns of every group's rows.
template <int kWidth, int kQueryCount, int kKeyCount>
struct PairTile {
  static constexpr int kThreadCount = 256, kSide = 16;
  static constexpr int kBlocks = kWidth <= 128 ? 2 : 1;   // on a multiprocessor
  static constexpr int kInFlight = kWidth == 96 ? 1 : 2;  // else registers would spill
  static constexpr int kQueries = kQueryCount, kKeys = kKeyCount;
  static constexpr int kRows = kQueries / kSide, kColumns = kKeys / kSide;
  static constexpr int kLanes = kWidth % 128 == 0 ? 32 : kWidth % 64 == 0 ? 16 : 8;
  static constexpr int kGroups = kThreadCount / kLanes, kChunks = kWidth / (4 * kLanes);
  static constexpr int kOwnQueries = kQueries / kGroups;
  // Two rows of a warp begin 16 banks apart: its 32 lanes write to 32 banks.
  static constexpr int kWeightStep = kKeys + 16;
  static constexpr int kQueryFloats = kQueries * kTileStep<kWidth>;
  static constexpr int kKeyFloats = kKeys * kTileStep<kWidth>;
  static constexpr int kWeightFloats = kQueries * kWeightStep;
  using Pair = Scores<kRows, kColumns>;
};
// For a block that owns keys: 2 x 4 to 4 x 4 scores and, of dK and dV, 16 to 32 numbers each a thread; 88 KiB of shared memory at 64
// numbers a head and 109 at 128, of which a multiprocessor of compute capability 9.0 holds two.
template <int kWidth>
using KeyTile = PairTile<kWidth, kWidth <= 64 ? 64 : 32, kWidth <= 128 ? 64 : 32>;
// For one that owns queries: the weights lie over the values' tile where they fit.
template <int kWidth>
using QueryTile = PairTile<kWidth, kWidth <= 128 ? 64 : 32, kWidth <= 64 ? 64 : 32>;

// A thread's place in the square of scores, and in the groups over columns.
template <class Tile>
struct PairThread {
  int row = thread_index() / Tile::kSide, column = thread_index() % Tile::kSide;
  int group = thread_index() / Tile::kLanes, lane = thread_index() % Tile::kLanes;
};

// Where a pair of tiles begins, and what is known of its queries.
struct PairPlace {
  int query, key;
  const float* log_sum_exp;
  const float* projection;
};

// Scores become probabilities; products of dout and values become dS.
template <class Tile>
__device__ void softmax_gradient(const AttentionSizes& s, const PairPlace& pair, float scale,
                                 typename Tile::Pair& scores, typename Tile::Pair& gradients) {
  const PairThread<Tile> at;
  const bool hides = s.partly_hidden(pair.query, pair.key, Tile::kKeys);
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    const int query = pair.query + at.row + i * Tile::kSide;
    const bool exists = query < s.queries;
    const float log_sum = exists ? pair.log_sum_exp[query] * kLog2E : 0.0f;
    const float mean = exists ? pair.projection[query] : 0.0f;
#pragma unroll
    for (int j = 0; j < Tile::kColumns; ++j) {
      const int key = pair.key + at.column + j * Tile::kSide;
      // At most 0: a score may exceed log_sum_exp by rounding when one key has all the weight.
      const float p = exp2f(fminf(fmaf(scores.at[i][j], scale * kLog2E, -log_sum), 0.0f));
      scores.at[i][j] = hides && s.hidden(query, key) ? 0.0f : p;
      gradients.at[i][j] = scores.at[i][j] * (gradients.at[i][j] - mean) * scale;
    }
  }
}

template <class Tile>
__device__ void write_weights(float* weights, const typename Tile::Pair& values) {
  const PairThread<Tile> at;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kColumns; ++j) {
      weights[(at.row + i * Tile::kSide) * Tile::kWeightStep + at.column + j * Tile::kSide] =
          values.at[i][j];
    }
  }
}

template <class Tile, int kWidth>
__device__ typename Tile::Pair tile_products(const float* of_queries, const float* of_keys) {
  const PairThread<Tile> at;
  return row_products<kWidth, Tile::kRows, Tile::kSide, Tile::kColumns, Tile::kSide>(
      of_queries + at.row * kTileStep<kWidth>, of_keys + at.column * kTileStep<kWidth>);
}

}  // namespace dettax
