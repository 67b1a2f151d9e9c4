// Causal attention, backward. First a kernel of its own: projection = the sum over a row of dout * out, of every query and head. Then a
// block for each tile of keys of each key/value head goes through the queries of its group of heads that meet them, recomputes the
// probabilities from log_sum_exp, and owns the sums of dK and dV: five products of tiles,
//   S = Q K^T    dP = dO V^T    dV += P^T dO    dK += dS^T Q    dQ += dS K    where dS = P (dP - projection) scale.
// dQ belongs to queries, not to keys, and is the difference:
//   fast           every block adds its share to dQ by atomics, 16 bytes at a time, as tiles of keys finish: in order of arrival
//   deterministic  that kernel leaves dQ out; a second one has a block for each tile of queries, which goes through the keys in order and
//                  owns dQ: three products, S and dP once more
// So the deterministic pass does 7 products instead of 5: 40 % more arithmetic, less what atomics (a read and a write in the L2 cache
// for every number of dQ and pair of tiles), clearing dQ and, for bf16, its f32 copy had cost. No working memory is needed but the
// projection, and every number has one owner, whose order follows from the shape of the call alone; samples never meet, so that
// `invariant` is the same.
//
// Two other ways to order dQ were weighed. Shares of tiles (or chains of tiles) of keys, added up in order afterwards: a pair of tiles
// of 64 x 64 x 128 is 5.2 million operations and 64 KiB written and read again. At the peaks of an H100 that is 20 ns of device memory
// beside 80 ns of arithmetic in plain f32, but beside 6 ns on tensor cores, where the time is; and shares need as much memory as dQ in
// f32 for every chain: with grouped heads, whose chains must be many to fill a device, gigabytes for one long sequence. Taking turns
// at dQ, as others do at 10 to 30 %, needs blocks that wait for others, hence all of them on the device in an order that no launch
// promises and that the emulation, a block after the other, does not have.

#include "harness/device/cuda/attention_halves.cuh"
#include "harness/device/cuda/attention_pair.cuh"
#include "harness/device/cuda/attention_rows.cuh"
#include "harness/device/cuda/workspace.h"

namespace dettax {
namespace {

template <class Tile, int kWidth>
struct KeyTileMemory {
  float* keys = dynamic_shared<float>();
  float* values = keys + Tile::kKeyFloats;
  float* queries = values + Tile::kKeyFloats;
  float* dout = queries + Tile::kQueryFloats;
  float* weights = dout + Tile::kQueryFloats;
  static constexpr size_t kFloats =
      2 * (Tile::kKeyFloats + Tile::kQueryFloats) + Tile::kWeightFloats;
};

// This pair's share of dQ, half of the rows at a time, since registers are full of dK and dV.
template <class Tile, int kWidth, class T>
__device__ void add_to_queries(const AttentionGradient<T>& a,
                               const KeyTileMemory<Tile, kWidth>& memory, const HeadRows<float>& to,
                               const PairPlace& pair) {
  constexpr int kRows = larger(Tile::kOwnQueries / 2, 1);
  const PairThread<Tile> at;
  const int depth = round_up_to_four(smaller(Tile::kKeys, a.s.keys - pair.key));
#pragma unroll 1
  for (int first = at.group; first < Tile::kQueries; first += kRows * Tile::kGroups) {
    RowSums<kRows, Tile::kChunks> sums;
    sums.clear();
    add_weighted_rows<kWidth, Tile::kWeightStep, Tile::kGroups, Tile::kLanes>(
        memory.weights + first * Tile::kWeightStep, memory.keys + at.lane * 4, depth, sums);
    sums.template for_each<Tile::kLanes>(at.lane * 4, [&](int i, int column, const auto& four) {
      const int row = pair.query + first + i * Tile::kGroups;
      if (row >= to.count || column >= to.width) return;
      float* number = to.first + row * to.step + column;
      if (to.by_four) return atomic_add<4>(number, four);
      for (int k = 0; k < 4; ++k) {
        if (column + k < to.width) atomicAdd(number + k, four.at[k]);
      }
    });
  }
}

template <class Tile>
struct KeySums {
  static constexpr int kOwnKeys = Tile::kKeys / Tile::kGroups;
  RowSums<kOwnKeys, Tile::kChunks> dkeys, dvalues;
};

// One tile of queries against the block's keys, which are in memory.
template <class Tile, int kWidth, bool kAddsQueries, class T>
__device__ void add_pair(const AttentionGradient<T>& a, const KeyTileMemory<Tile, kWidth>& memory,
                         const HeadRows<float>& dqueries, const PairPlace& pair,
                         KeySums<Tile>& sums) {
  const PairThread<Tile> at;
  auto probabilities = tile_products<Tile, kWidth>(memory.queries, memory.keys);
  auto gradients = tile_products<Tile, kWidth>(memory.dout, memory.values);
  softmax_gradient<Tile>(a.s, pair, a.scale, probabilities, gradients);
  const int queries = smaller(Tile::kQueries, a.s.queries - pair.query);
  const float* columns = memory.weights + at.group * KeySums<Tile>::kOwnKeys;
  write_weights<Tile>(memory.weights, probabilities);
  __syncthreads();
  add_weighted_columns<kWidth, Tile::kWeightStep, Tile::kLanes>(columns, memory.dout + at.lane * 4,
                                                                queries, sums.dvalues);
  __syncthreads();
  write_weights<Tile>(memory.weights, gradients);
  __syncthreads();
  add_weighted_columns<kWidth, Tile::kWeightStep, Tile::kLanes>(
      columns, memory.queries + at.lane * 4, queries, sums.dkeys);
  if constexpr (kAddsQueries) add_to_queries<Tile, kWidth>(a, memory, dqueries, pair);
}

// dK and dV of a tile of keys, the first ones, which most queries meet, first.
template <int kWidth, bool kAddsQueries, class T>
__device__ void key_tile_gradient(const AttentionGradient<T>& a) {
  using Tile = KeyTile<kWidth>;
  const AttentionSizes& s = a.s;
  const PairThread<Tile> at;
  const KeyTileMemory<Tile, kWidth> memory;
  const auto key = static_cast<int>(block_index() / s.all_key_heads() * Tile::kKeys);
  const int64_t sample = block_index() % s.all_key_heads() / s.key_value_heads;
  const int64_t key_head = block_index() % s.key_value_heads;
  load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, Tile::kInFlight>(
      memory.keys, s.keys_of(a.keys_values, sample, key_head), key);
  load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, Tile::kInFlight>(
      memory.values, s.values_of(a.keys_values, sample, key_head), key);
  KeySums<Tile> sums;
  sums.dkeys.clear();
  sums.dvalues.clear();
  for (int64_t head = key_head * s.group; head < (key_head + 1) * s.group; ++head) {
    const auto queries = s.queries_of(a.qkv, s.step, sample, head);
    const auto dout = s.queries_of(a.dout, int64_t{s.heads} * s.width, sample, head);
    const auto dqueries = s.queries_of(a.dqueries, a.dqueries_step, sample, head);
    const int64_t statistics = s.statistics_of(sample, head);
    for (int query = s.causal ? key / Tile::kQueries * Tile::kQueries : 0; query < s.queries;
         query += Tile::kQueries) {
      __syncthreads();
      load_tile<Tile::kQueries, kWidth, Tile::kThreadCount, Tile::kInFlight>(memory.queries,
                                                                             queries, query);
      load_tile<Tile::kQueries, kWidth, Tile::kThreadCount, Tile::kInFlight>(memory.dout, dout,
                                                                             query);
      __syncthreads();
      add_pair<Tile, kWidth, kAddsQueries>(
          a, memory, dqueries, {query, key, a.log_sum_exp + statistics, a.projection + statistics},
          sums);
    }
  }
  const auto dkeys = s.keys_of(a.dkeys_values, sample, key_head);
  const auto dvalues = s.values_of(a.dkeys_values, sample, key_head);
  const int row = key + at.group * KeySums<Tile>::kOwnKeys;
  sums.dkeys.template for_each<Tile::kLanes>(at.lane * 4, [&](int i, int column, const auto& four) {
    dkeys.write(row + i, column, four);
  });
  sums.dvalues.template for_each<Tile::kLanes>(
      at.lane * 4,
      [&](int i, int column, const auto& four) { dvalues.write(row + i, column, four); });
}

template <int kWidth>
LaunchShape key_tiles(const AttentionSizes& s) {
  using Tile = KeyTile<kWidth>;
  return {blocks_for(s.keys, Tile::kKeys) * s.all_key_heads(), Tile::kThreadCount,
          KeyTileMemory<Tile, kWidth>::kFloats * sizeof(float)};
}

}  // namespace

namespace fast {
namespace {

template <class T, int kWidth>
__global__ void __launch_bounds__(KeyTile<kWidth>::kThreadCount, KeyTile<kWidth>::kBlocks)
    attention_key_tile(AttentionGradient<T> a) {
  key_tile_gradient<kWidth, true>(a);
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

template <class T, int kWidth>
__global__ void __launch_bounds__(KeyTile<kWidth>::kThreadCount, KeyTile<kWidth>::kBlocks)
    attention_key_tile(AttentionGradient<T> a) {
  key_tile_gradient<kWidth, false>(a);
}

template <class Tile, int kWidth>
struct QueryTileMemory {
  float* queries = dynamic_shared<float>();
  float* dout = queries + Tile::kQueryFloats;
  float* keys = dout + Tile::kQueryFloats;
  float* values = keys + Tile::kKeyFloats;
  float* weights = values;
  static constexpr size_t kFloats =
      2 * Tile::kQueryFloats + Tile::kKeyFloats + larger(Tile::kKeyFloats, Tile::kWeightFloats);
};

// dQ of a tile of queries, the last ones, which meet most keys, first.
template <class T, int kWidth>
__global__ void __launch_bounds__(QueryTile<kWidth>::kThreadCount, QueryTile<kWidth>::kBlocks)
    attention_query_tile(AttentionGradient<T> a) {
  using Tile = QueryTile<kWidth>;
  const AttentionSizes& s = a.s;
  const PairThread<Tile> at;
  const QueryTileMemory<Tile, kWidth> memory;
  const int64_t tiles = (s.queries + Tile::kQueries - 1) / Tile::kQueries;
  const auto query = static_cast<int>((tiles - 1 - block_index() / s.all_heads()) * Tile::kQueries);
  const int64_t sample = block_index() % s.all_heads() / s.heads;
  const int64_t head = block_index() % s.heads;
  const auto keys = s.keys_of(a.keys_values, sample, head / s.group);
  const auto values = s.values_of(a.keys_values, sample, head / s.group);
  const int64_t statistics = s.statistics_of(sample, head);
  load_tile<Tile::kQueries, kWidth, Tile::kThreadCount, Tile::kInFlight>(
      memory.queries, s.queries_of(a.qkv, s.step, sample, head), query);
  load_tile<Tile::kQueries, kWidth, Tile::kThreadCount, Tile::kInFlight>(
      memory.dout, s.queries_of(a.dout, int64_t{s.heads} * s.width, sample, head), query);
  RowSums<Tile::kOwnQueries, Tile::kChunks> sums;
  sums.clear();
  const int end = s.causal ? smaller(s.keys, query + Tile::kQueries) : s.keys;
  for (int key = 0; key < end; key += Tile::kKeys) {
    __syncthreads();
    load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, Tile::kInFlight>(memory.keys, keys, key);
    load_tile<Tile::kKeys, kWidth, Tile::kThreadCount, Tile::kInFlight>(memory.values, values, key);
    __syncthreads();
    auto probabilities = tile_products<Tile, kWidth>(memory.queries, memory.keys);
    auto gradients = tile_products<Tile, kWidth>(memory.dout, memory.values);
    softmax_gradient<Tile>(s, {query, key, a.log_sum_exp + statistics, a.projection + statistics},
                           a.scale, probabilities, gradients);
    __syncthreads();  // all have read the values
    write_weights<Tile>(memory.weights, gradients);
    __syncthreads();
    add_weighted_rows<kWidth, Tile::kWeightStep, Tile::kGroups, Tile::kLanes>(
        memory.weights + at.group * Tile::kWeightStep, memory.keys + at.lane * 4,
        round_up_to_four(smaller(Tile::kKeys, end - key)), sums);
  }
  const auto dqueries = s.queries_of(a.dqkv, s.step, sample, head);
  sums.template for_each<Tile::kLanes>(at.lane * 4, [&](int i, int column, const auto& four) {
    const int row = query + at.group + i * Tile::kGroups;
    if (s.causal) {
      dqueries.write(row, column, four);
    } else {
      dqueries.add(row, column, four);
    }
  });
}

template <int kWidth>
LaunchShape query_tiles(const AttentionSizes& s) {
  using Tile = QueryTile<kWidth>;
  return {blocks_for(s.queries, Tile::kQueries) * s.all_heads(), Tile::kThreadCount,
          QueryTileMemory<Tile, kWidth>::kFloats * sizeof(float)};
}

}  // namespace
}  // namespace deterministic

namespace {

void require_types(const AttentionBackward& call, const AttentionShape& shape) {
  const DType type = call.qkv.type;
  require(
      call.dqkv.type == type && call.dout.type == type && call.out.type == type &&
          (shape.causal || (call.block.keys_values.type == type && call.dkeys_values.type == type)),
      "attention_backward (types)");
}

template <class T>
AttentionGradient<T> backward_work(const AttentionBackward& call, const AttentionShape& shape) {
  const size_t queries = shape.heads * shape.width;
  AttentionGradient<T> work{};
  work.qkv = data_of<T>(call.qkv);
  work.dout = data_of<T>(call.dout);
  work.log_sum_exp = call.log_sum_exp.f32();
  work.dqkv = data_of<T>(call.dqkv);
  work.keys_values = shape.causal ? work.qkv + queries : data_of<T>(call.block.keys_values);
  work.dkeys_values = shape.causal ? work.dqkv + queries : data_of<T>(call.dkeys_values);
  work.scale = static_cast<float>(call.scale);
  work.s = attention_sizes<T>(
      shape, {work.qkv, work.keys_values, work.dout, call.out.data, work.dqkv, work.dkeys_values});
  return work;
}

template <int kWidth, class T>
void launch_tiles(const KernelPlace& place, const AttentionGradient<T>& work, bool arrival) {
  if constexpr (std::is_same_v<T, Bf16> && kWidth <= kWidestHalves) {
    attention_backward_halves(place, work, arrival);
  } else {
    launch(place.stream, key_tiles<kWidth>(work.s),
           arrival ? fast::attention_key_tile<T, kWidth>
                   : deterministic::attention_key_tile<T, kWidth>,
           work);
    if (arrival || work.s.queries == 0) return;
    launch(place.stream, deterministic::query_tiles<kWidth>(work.s),
           deterministic::attention_query_tile<T, kWidth>, work);
  }
}

}  // namespace

void CudaKernels::attention_backward(const AttentionBackward& call) {
  const AttentionShape shape = checked_shape(call);
  require_types(call, shape);
  if (shape.keys == 0) return;
  const bool arrival = call.sum.order == Order::arrival;
  by_type(call.qkv.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    AttentionGradient<T> work = backward_work<T>(call, shape);
    // Atomics add to f32: to dqkv itself, or to working memory beside it.
    const bool beside = arrival && call.qkv.type != DType::f32;
    WorkspaceLayout layout;
    const size_t projections = layout.add<float>(call.log_sum_exp.count());
    const size_t sums = layout.add<float>(beside ? call.out.count() : 0);
    std::byte* memory = workspace(layout.bytes());
    auto* projection = layout.at<float>(memory, projections);
    work.projection = projection;
    if (beside) {
      work.dqueries = layout.at<float>(memory, sums);
      work.dqueries_step = call.out.columns();
    } else if (arrival) {
      work.dqueries = call.dqkv.f32();
      work.dqueries_step = work.s.step;
    }
    const LaunchShape rows{grid_for(query_heads(work.s), kThreads / 8, place_.multiprocessors)};
    if (shape.queries > 0) {
      launch(place_.stream, rows, project_rows<T>, work, data_of<T>(call.out), projection,
             beside || shape.causal ? work.dqueries : nullptr);
    }
    by_head_width(shape.width,
                  [&](auto width) { launch_tiles<decltype(width)::value>(place_, work, arrival); });
    if (beside && shape.queries > 0) launch(place_.stream, rows, store_queries<T>, work);
  });
}

}  // namespace dettax
