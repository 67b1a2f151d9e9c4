// Causal attention, forward: a block has 64 queries of one head of one sample and goes through the keys they meet, a tile at a time,
// with a running maximum and sum, so that no T x T matrix exists. There is no twin: everything about a query is summed by the eight
// lanes that own its row, tile after tile from the first key on, then by a tree over the lanes; no schedule, number of samples or
// number of multiprocessors has a part in it.
//
// What earlier calls gave for a query (a block of another rank's keys) counts as one more key, with their log-sum-exp as its score and
// their output as its value.

#include "harness/device/cuda/attention_halves.cuh"

namespace dettax {
namespace {

// 128 threads as 16 rows of 8 lanes: a lane has every 16th query and every 8th key of the tile, and of the output every eighth group
// of four columns. Probabilities are read only by the warp that wrote them, over the keys' tile, which nobody needs by then. At 64
// numbers a head that makes 52 KiB of shared memory, at 128 it makes 66, so that two or three blocks share a multiprocessor and one
// computes while another loads.
template <int kWidth>
struct ForwardTile {
  static constexpr int kThreadCount = 128, kLanes = 8, kRowsApart = kThreadCount / kLanes;
  static constexpr int kBlocks = kWidth <= 128 ? 3 : 1;  // on a multiprocessor
  static constexpr int kQueries = 64, kRows = kQueries / kRowsApart;
  static constexpr int kKeys = kWidth <= 64 ? 64 : 32, kColumns = kKeys / kLanes;
  static constexpr int kChunks = kWidth / (4 * kLanes);
  // Four rows of a warp begin 8 banks apart: its 32 lanes write to 32 banks.
  static constexpr int kWeightStep = kKeys + 8;
  static constexpr int kQueryFloats = kQueries * kTileStep<kWidth>;
  static constexpr int kKeyFloats = larger(kKeys * kTileStep<kWidth>, kQueries* kWeightStep);
  static constexpr int kFloats = kQueryFloats + kKeyFloats + kKeys * kTileStep<kWidth>;
};

struct ForwardWork {
  AttentionSizes s;
  const float* qkv;
  const float* keys_values;
  float* out;
  float* log_sum_exp;
  float scale;  // times log2(e)
};

// Of the queries that a lane has a part of. Maxima are of scores times log2(e); totals are the lane's own.
template <int kRows, int kChunks>
struct RunningSoftmax {
  float maximum[static_cast<size_t>(kRows)], total[static_cast<size_t>(kRows)];
  RowSums<kRows, kChunks> out;

  // Scores become probabilities relative to the new maximum; what was summed before shrinks to it.
  template <int kColumns>
  __device__ void take(Scores<kRows, kColumns>& scores) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float largest = maximum[i];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) largest = fmaxf(largest, scores.at[i][j]);
#pragma unroll
      for (int apart = 1; apart < 8; apart *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, apart));
      }
      const float factor = exp2f(maximum[i] - largest);
      maximum[i] = largest;
      total[i] *= factor;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        scores.at[i][j] = exp2f(scores.at[i][j] - largest);
        total[i] += scores.at[i][j];
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int k = 0; k < 4; ++k) out.at[i][c].at[k] *= factor;
      }
    }
  }
};

// What a block works on, and its thread's place in it.
template <int kWidth>
struct ForwardBlock {
  using Tile = ForwardTile<kWidth>;
  using Running = RunningSoftmax<Tile::kRows, Tile::kChunks>;
  const ForwardWork& a;
  int64_t sample, head;
  int first;  // query
  int lane = thread_index() % Tile::kLanes, row = thread_index() / Tile::kLanes;

  // The longest first: the last queries of all heads.
  __device__ explicit ForwardBlock(const ForwardWork& work)
      : a(work),
        sample(block_index() % work.s.all_heads() / work.s.heads),
        head(block_index() % work.s.heads) {
    const int64_t tiles = (work.s.queries + Tile::kQueries - 1) / Tile::kQueries;
    first = static_cast<int>((tiles - 1 - block_index() / work.s.all_heads()) * Tile::kQueries);
  }
  __device__ int query(int i) const { return first + row + i * Tile::kRowsApart; }
  __device__ int column(int chunk) const { return (lane + chunk * Tile::kLanes) * 4; }
  __device__ HeadRows<float> out() const {
    return a.s.queries_of(a.out, int64_t{a.s.heads} * a.s.width, sample, head);
  }
  __device__ float* log_sum_exp() const { return a.log_sum_exp + a.s.statistics_of(sample, head); }

  __device__ void begin(Running& now) const {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      now.maximum[i] = -INFINITY;
      now.total[i] = 0.0f;
    }
    now.out.clear();
  }
  // Takes up what earlier calls gave.
  __device__ void resume(Running& now) const {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      now.maximum[i] = query(i) < a.s.queries ? log_sum_exp()[query(i)] * kLog2E : 0.0f;
      now.total[i] = lane == 0 ? 1.0f : 0.0f;
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) now.out.at[i][c] = out().read(query(i), column(c));
    }
  }
  // Of a tile that begins with `key`.
  __device__ void scale_and_hide(int key, Scores<Tile::kRows, Tile::kColumns>& scores) const {
    const bool hides = a.s.partly_hidden(first, key, Tile::kKeys);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j) {
        const bool hidden = hides && a.s.hidden(query(i), key + lane + j * Tile::kLanes);
        scores.at[i][j] = hidden ? -INFINITY : scores.at[i][j] * a.scale;
      }
    }
  }
  __device__ void write_weights(float* weights,
                                const Scores<Tile::kRows, Tile::kColumns>& scores) const {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j) {
        weights[(row + i * Tile::kRowsApart) * Tile::kWeightStep + lane + j * Tile::kLanes] =
            scores.at[i][j];
      }
    }
  }
  __device__ void finish(const Running& now) const {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      float total = now.total[i];
#pragma unroll
      for (int apart = 1; apart < Tile::kLanes; apart *= 2) {
        total += __shfl_xor_sync(kWholeWarp, total, apart);
      }
      const float inverse = 1.0f / total;
#pragma unroll
      for (int c = 0; c < Tile::kChunks; ++c) {
        Floats<4> four = now.out.at[i][c];
#pragma unroll
        for (int k = 0; k < 4; ++k) four.at[k] *= inverse;
        out().write(query(i), column(c), four);
      }
      if (lane == 0 && query(i) < a.s.queries) {
        log_sum_exp()[query(i)] = (now.maximum[i] + log2f(total)) * kLn2;
      }
    }
  }
};

template <int kWidth>
__global__ void __launch_bounds__(ForwardTile<kWidth>::kThreadCount, ForwardTile<kWidth>::kBlocks)
    attention_forward_tile(ForwardWork a) {
  using Tile = ForwardTile<kWidth>;
  constexpr int kStep = kTileStep<kWidth>;
  const AttentionSizes& s = a.s;
  auto* queries = dynamic_shared<float>();
  float* keys = queries + Tile::kQueryFloats;
  float* weights = keys;
  float* values = keys + Tile::kKeyFloats;
  const ForwardBlock<kWidth> block(a);
  const auto key_rows = s.keys_of(a.keys_values, block.sample, block.head / s.group);
  const auto value_rows = s.values_of(a.keys_values, block.sample, block.head / s.group);
  load_tile<Tile::kQueries, kWidth, Tile::kThreadCount, 4>(
      queries, s.queries_of(a.qkv, s.step, block.sample, block.head), block.first);
  typename ForwardBlock<kWidth>::Running now;
  if (s.causal) {
    block.begin(now);
  } else {
    block.resume(now);
  }
  const int end = s.causal ? smaller(s.keys, block.first + Tile::kQueries) : s.keys;
  for (int key = 0; key < end; key += Tile::kKeys) {
    __syncthreads();
    load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, 4>(keys, key_rows, key);
    load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, 4>(values, value_rows, key);
    __syncthreads();
    auto scores = row_products<kWidth, Tile::kRows, Tile::kRowsApart, Tile::kColumns, Tile::kLanes>(
        queries + block.row * kStep, keys + block.lane * kStep);
    block.scale_and_hide(key, scores);
    now.take(scores);
    __syncthreads();  // all have read the keys
    block.write_weights(weights, scores);
    __syncwarp();
    add_weighted_rows<kWidth, Tile::kWeightStep, Tile::kRowsApart, Tile::kLanes>(
        weights + block.row * Tile::kWeightStep, values + block.lane * 4,
        round_up_to_four(smaller(Tile::kKeys, end - key)), now.out);
  }
  block.finish(now);
}

}  // namespace

void CudaKernels::attention_forward(const AttentionForward& call) {
  const AttentionShape shape = checked_shape(call);
  const DType type = call.qkv.type;
  require(call.out.type == type && (shape.causal || call.block.keys_values.type == type),
          "attention_forward (types)");
  if (shape.queries == 0 || shape.keys == 0) return;
  if (type == DType::bf16) return attention_forward_halves(place_, call, shape);
  const float* qkv = call.qkv.f32();
  const float* keys_values =
      shape.causal ? qkv + shape.heads * shape.width : call.block.keys_values.f32();
  const ForwardWork work{attention_sizes<float>(shape, {qkv, keys_values, call.out.data}),
                         qkv,
                         keys_values,
                         call.out.f32(),
                         call.log_sum_exp.f32(),
                         static_cast<float>(call.scale) * kLog2E};
  by_head_width(shape.width, [&](auto width) {
    using Tile = ForwardTile<decltype(width)::value>;
    launch(place_.stream,
           {blocks_for(work.s.queries, Tile::kQueries) * work.s.all_heads(), Tile::kThreadCount,
            Tile::kFloats * sizeof(float)},
           attention_forward_tile<decltype(width)::value>, work);
  });
}

}  // namespace dettax
