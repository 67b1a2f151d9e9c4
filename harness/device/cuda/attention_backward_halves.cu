// attention_backward.cu for bf16 on tensor cores: the same two forms for the same reasons. Scores are kept as keys x queries where keys
// are owned, and as queries x keys where queries are, so that a warp's sums are the left operand of what it owns and never leave its
// registers; only the fast form's share of dQ goes through shared memory, to atomics of 8 bytes. Four warps have 16 keys, or queries, each.

#include "harness/device/cuda/attention_halves.cuh"

namespace dettax {
namespace {

// kQueries at a time against 64 keys.
template <int kWidth>
struct KeyWarps {
  static constexpr int kThreadCount = 128, kKeys = 64, kQueries = kWidth <= 64 ? 64 : 32;
  static constexpr int kStep = kHalvesStep<kWidth>, kShareStep = kHalvesStep<kQueries>;
  static constexpr int kQueryTiles = kQueries / 8, kColumnTiles = kWidth / 8;
  static constexpr int kBlocks = 2;  // on a multiprocessor
  using Scores = WarpSums<kQueryTiles>;
  using Sums = WarpSums<kColumnTiles>;

  struct Memory {
    Bf16* keys = dynamic_shared<Bf16>();
    Bf16* values = keys + kKeys * kStep;
    Bf16* queries = values + kKeys * kStep;
    Bf16* dout = queries + kQueries * kStep;
    Bf16* shares = dout + kQueries * kStep;  // dS of all keys x queries
    float* log_sums = reinterpret_cast<float*>(shares + kKeys * kShareStep);
    float* projections = log_sums + kQueries;
  };
  static constexpr size_t kBytes =
      (2 * (kKeys + kQueries) * kStep + kKeys * kShareStep) * sizeof(Bf16) +
      2 * kQueries * sizeof(float);
};

struct HalvesGradient {
  AttentionGradient<Bf16> a;
  bool by_eight;
};

// p and dS / scale of one pair; `score` and `product` are sums of the tiles' products.
struct PairGradient {
  float p, ds;
};
__device__ inline PairGradient pair_gradient(float score, float product, float log_sum,
                                             float projection, bool hidden) {
  // At most 0: a score may exceed log_sum_exp by rounding when one key has all the weight.
  const float p = hidden ? 0.0f : exp2f(fminf(score - log_sum, 0.0f));
  return {p, p * (product - projection)};
}

// Scores of the warp's keys become probabilities, products dS / scale.
template <int kWidth>
__device__ void keys_softmax_gradient(const AttentionGradient<Bf16>& a,
                                      const typename KeyWarps<kWidth>::Memory& memory, int key,
                                      int query, typename KeyWarps<kWidth>::Scores& scores,
                                      typename KeyWarps<kWidth>::Scores& products) {
  const bool hides = a.s.partly_hidden(query, key, 16);
  const float scale = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < KeyWarps<kWidth>::kQueryTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane_index() / 4 + i / 2 * 8;
      const int column = n * 8 + lane_index() % 4 * 2 + i % 2;
      const bool hidden = hides && a.s.hidden(query + column, key + row);
      const auto pair = pair_gradient(scores.at[n].at[i] * scale, products.at[n].at[i],
                                      memory.log_sums[column], memory.projections[column], hidden);
      scores.at[n].at[i] = pair.p;
      products.at[n].at[i] = pair.ds;
    }
  }
}

__device__ inline void add_pair(const HeadRows<float>& to, int row, int column, float left,
                                float right) {
  if (row >= to.count || column >= to.width) return;
  float* number = to.first + row * to.step + column;
  if (to.by_four) return atomic_add_two(number, left, right);
  atomicAdd(number, left);
  if (column + 1 < to.width) atomicAdd(number + 1, right);
}

// The block's share of dQ of a tile of queries that begins with `query`: each warp has 16 rows and all or half of the columns, at most
// 32 at a time, since registers are full of dK and dV.
template <int kWidth>
__device__ void add_to_queries(const AttentionGradient<Bf16>& a,
                               const typename KeyWarps<kWidth>::Memory& memory,
                               const HeadRows<float>& to, int query) {
  using Warps = KeyWarps<kWidth>;
  constexpr int kRowTiles = Warps::kQueries / 16;
  constexpr int kOwnTiles = Warps::kColumnTiles * kRowTiles / 4;
  constexpr int kTiles = kOwnTiles % 4 == 0 ? 4 : 2;
  const int first_row = warp_index() % kRowTiles * 16;
  const int begin = warp_index() / kRowTiles * kOwnTiles * 8;
#pragma unroll 1
  for (int first = begin; first < begin + kOwnTiles * 8; first += kTiles * 8) {
    WarpSums<kTiles> sums;
    sums.clear();
#pragma unroll 1
    for (int k = 0; k < Warps::kKeys; k += 16) {
      const auto left =
          left_of_columns<Warps::kShareStep>(memory.shares + k * Warps::kShareStep + first_row);
#pragma unroll
      for (int pair = 0; pair < kTiles / 2; ++pair) {
        sums.add(pair, left,
                 right_of<Warps::kStep>(memory.keys + k * Warps::kStep + first + pair * 16));
      }
    }
    sums.for_each_pair([&](int row, int column, float left, float right) {
      add_pair(to, query + first_row + row, first + column, left * a.scale, right * a.scale);
    });
  }
}

// A tile of queries into memory, with their statistics.
template <int kWidth>
__device__ void load_queries(const HalvesGradient& g,
                             const typename KeyWarps<kWidth>::Memory& memory, int64_t sample,
                             int64_t head, int query) {
  using Warps = KeyWarps<kWidth>;
  const AttentionGradient<Bf16>& a = g.a;
  load_halves<Warps::kQueries, kWidth, Warps::kThreadCount>(
      memory.queries, a.s.queries_of(a.qkv, a.s.step, sample, head), query, g.by_eight);
  load_halves<Warps::kQueries, kWidth, Warps::kThreadCount>(
      memory.dout, a.s.queries_of(a.dout, int64_t{a.s.heads} * a.s.width, sample, head), query,
      g.by_eight);
  const int at = thread_index();
  if (at >= Warps::kQueries) return;
  const int64_t statistics = a.s.statistics_of(sample, head) + query + at;
  const bool exists = query + at < a.s.queries;
  memory.log_sums[at] = exists ? a.log_sum_exp[statistics] * kLog2E : 0.0f;
  memory.projections[at] = exists ? a.projection[statistics] : 0.0f;
}

// The first keys, which most queries meet, first.
template <int kWidth, bool kAddsQueries>
__device__ void key_warps_gradient(const HalvesGradient& g) {
  using Warps = KeyWarps<kWidth>;
  constexpr int kStep = Warps::kStep;
  const AttentionGradient<Bf16>& a = g.a;
  const AttentionSizes& s = a.s;
  const typename Warps::Memory memory;
  const auto first = static_cast<int>(block_index() / s.all_key_heads() * Warps::kKeys);
  const int64_t sample = block_index() % s.all_key_heads() / s.key_value_heads;
  const int64_t key_head = block_index() % s.key_value_heads;
  const int own = warp_index() * 16;
  load_halves<Warps::kKeys, kWidth, Warps::kThreadCount>(
      memory.keys, s.keys_of(a.keys_values, sample, key_head), first, g.by_eight);
  load_halves<Warps::kKeys, kWidth, Warps::kThreadCount>(
      memory.values, s.values_of(a.keys_values, sample, key_head), first, g.by_eight);
  typename Warps::Sums dkeys;
  typename Warps::Sums dvalues;
  dkeys.clear();
  dvalues.clear();
  for (int64_t head = key_head * s.group; head < (key_head + 1) * s.group; ++head) {
    for (int query = s.causal ? first / Warps::kQueries * Warps::kQueries : 0; query < s.queries;
         query += Warps::kQueries) {
      __syncthreads();
      load_queries<kWidth>(g, memory, sample, head, query);
      __syncthreads();
      auto scores = warp_row_products<kWidth, kStep, Warps::kQueryTiles>(memory.keys + own * kStep,
                                                                         memory.queries);
      auto products = warp_row_products<kWidth, kStep, Warps::kQueryTiles>(
          memory.values + own * kStep, memory.dout);
      keys_softmax_gradient<kWidth>(a, memory, first + own, query, scores, products);
      add_weighted_rows<kStep>(scores, memory.dout, dvalues);
      add_weighted_rows<kStep>(products, memory.queries, dkeys);
      if constexpr (kAddsQueries) {
        products.for_each_pair([&](int row, int column, float left, float right) {
          store(memory.shares + (own + row) * Warps::kShareStep + column, Floats<2>{{left, right}});
        });
        __syncthreads();
        add_to_queries<kWidth>(a, memory, s.queries_of(a.dqueries, a.dqueries_step, sample, head),
                               query);
      }
    }
  }
  const auto to_keys = s.keys_of(a.dkeys_values, sample, key_head);
  const auto to_values = s.values_of(a.dkeys_values, sample, key_head);
  dkeys.for_each_pair([&](int row, int column, float left, float right) {
    write_pair(to_keys, first + own + row, column, {{left * a.scale, right * a.scale}});
  });
  dvalues.for_each_pair([&](int row, int column, float left, float right) {
    write_pair(to_values, first + own + row, column, {{left, right}});
  });
}

template <int kWidth>
LaunchShape key_warps(const AttentionSizes& s) {
  using Warps = KeyWarps<kWidth>;
  return {blocks_for(s.keys, Warps::kKeys) * s.all_key_heads(), Warps::kThreadCount, Warps::kBytes};
}

}  // namespace

namespace fast {
namespace {

template <int kWidth>
__global__ void __launch_bounds__(KeyWarps<kWidth>::kThreadCount, KeyWarps<kWidth>::kBlocks)
    attention_key_warps(HalvesGradient g) {
  key_warps_gradient<kWidth, true>(g);
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

template <int kWidth>
__global__ void __launch_bounds__(KeyWarps<kWidth>::kThreadCount, KeyWarps<kWidth>::kBlocks)
    attention_key_warps(HalvesGradient g) {
  key_warps_gradient<kWidth, false>(g);
}

template <int kWidth>
struct QueryWarps {
  static constexpr int kThreadCount = 128, kQueries = 64, kKeys = kWidth <= 64 ? 64 : 32;
  static constexpr int kStep = kHalvesStep<kWidth>;
  static constexpr int kKeyTiles = kKeys / 8, kColumnTiles = kWidth / 8;
  static constexpr int kBlocks = kWidth <= 96 ? 3 : 2;  // on a multiprocessor
  static constexpr size_t kBytes = 2 * (kQueries + kKeys) * kStep * sizeof(Bf16);
  using Scores = WarpSums<kKeyTiles>;
};

// Of rows lane / 4 and 8 below.
struct RowStatistics {
  float log_sum[2], projection[2];
};

template <int kWidth>
__device__ void queries_softmax_gradient(const AttentionGradient<Bf16>& a,
                                         const RowStatistics& rows, int query, int key,
                                         typename QueryWarps<kWidth>::Scores& scores,
                                         typename QueryWarps<kWidth>::Scores& products) {
  const bool hides = a.s.partly_hidden(query, key, QueryWarps<kWidth>::kKeys);
  const float scale = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < QueryWarps<kWidth>::kKeyTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane_index() / 4 + i / 2 * 8;
      const int column = n * 8 + lane_index() % 4 * 2 + i % 2;
      const bool hidden = hides && a.s.hidden(query + row, key + column);
      products.at[n].at[i] = pair_gradient(scores.at[n].at[i] * scale, products.at[n].at[i],
                                           rows.log_sum[i / 2], rows.projection[i / 2], hidden)
                                 .ds;
    }
  }
}

// The last queries, which meet most keys, first.
template <int kWidth>
__global__ void __launch_bounds__(QueryWarps<kWidth>::kThreadCount, QueryWarps<kWidth>::kBlocks)
    attention_query_warps(HalvesGradient g) {
  using Warps = QueryWarps<kWidth>;
  constexpr int kStep = Warps::kStep;
  const AttentionGradient<Bf16>& a = g.a;
  const AttentionSizes& s = a.s;
  auto* queries = dynamic_shared<Bf16>();
  Bf16* dout = queries + Warps::kQueries * kStep;
  Bf16* keys = dout + Warps::kQueries * kStep;
  Bf16* values = keys + Warps::kKeys * kStep;
  const int64_t tiles = (s.queries + Warps::kQueries - 1) / Warps::kQueries;
  const auto first =
      static_cast<int>((tiles - 1 - block_index() / s.all_heads()) * Warps::kQueries);
  const int64_t sample = block_index() % s.all_heads() / s.heads;
  const int64_t head = block_index() % s.heads;
  const auto key_rows = s.keys_of(a.keys_values, sample, head / s.group);
  const auto value_rows = s.values_of(a.keys_values, sample, head / s.group);
  const int own = warp_index() * 16;
  load_halves<Warps::kQueries, kWidth, Warps::kThreadCount>(
      queries, s.queries_of(a.qkv, s.step, sample, head), first, g.by_eight);
  load_halves<Warps::kQueries, kWidth, Warps::kThreadCount>(
      dout, s.queries_of(a.dout, int64_t{s.heads} * s.width, sample, head), first, g.by_eight);
  RowStatistics rows;
  for (int half = 0; half < 2; ++half) {
    const int query = first + own + lane_index() / 4 + half * 8;
    const int64_t at = s.statistics_of(sample, head) + query;
    rows.log_sum[half] = query < s.queries ? a.log_sum_exp[at] * kLog2E : 0.0f;
    rows.projection[half] = query < s.queries ? a.projection[at] : 0.0f;
  }
  WarpSums<Warps::kColumnTiles> dqueries;
  dqueries.clear();
  const int end = s.causal ? smaller(s.keys, first + Warps::kQueries) : s.keys;
  for (int key = 0; key < end; key += Warps::kKeys) {
    __syncthreads();
    load_halves<Warps::kKeys, kWidth, Warps::kThreadCount>(keys, key_rows, key, g.by_eight);
    load_halves<Warps::kKeys, kWidth, Warps::kThreadCount>(values, value_rows, key, g.by_eight);
    __syncthreads();
    auto scores = warp_row_products<kWidth, kStep, Warps::kKeyTiles>(queries + own * kStep, keys);
    auto products = warp_row_products<kWidth, kStep, Warps::kKeyTiles>(dout + own * kStep, values);
    queries_softmax_gradient<kWidth>(a, rows, first + own, key, scores, products);
    add_weighted_rows<kStep>(products, keys, dqueries);
  }
  const auto to = s.queries_of(a.dqkv, s.step, sample, head);
  dqueries.for_each_pair([&](int row, int column, float left, float right) {
    Floats<2> two{{left * a.scale, right * a.scale}};
    if (!s.causal) {
      const auto old = read_pair(to, first + own + row, column);
      for (int k = 0; k < 2; ++k) two.at[k] += old.at[k];
    }
    write_pair(to, first + own + row, column, two);
  });
}

template <int kWidth>
LaunchShape query_warps(const AttentionSizes& s) {
  using Warps = QueryWarps<kWidth>;
  return {blocks_for(s.queries, Warps::kQueries) * s.all_heads(), Warps::kThreadCount,
          Warps::kBytes};
}

}  // namespace
}  // namespace deterministic

void attention_backward_halves(const KernelPlace& place, const AttentionGradient<Bf16>& work,
                               bool arrival) {
  const HalvesGradient g{work,
                         work.s.width % 8 == 0 && aligned({work.qkv, work.keys_values, work.dout})};
  by_head_width(static_cast<size_t>(work.s.width), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    if constexpr (kWidth <= kWidestHalves) {
      launch(
          place.stream, key_warps<kWidth>(work.s),
          arrival ? fast::attention_key_warps<kWidth> : deterministic::attention_key_warps<kWidth>,
          g);
      if (arrival || work.s.queries == 0) return;
      launch(place.stream, deterministic::query_warps<kWidth>(work.s),
             deterministic::attention_query_warps<kWidth>, g);
    }
  });
}

}  // namespace dettax
