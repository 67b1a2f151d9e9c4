// attention_forward.cu for bf16 on tensor cores, in the same order of keys and so again without a twin: four warps of 16 queries each,
// 64 keys at a time; probabilities stay in registers, where a matrix of sums is the left operand of the next product.

#include "harness/device/cuda/attention_halves.cuh"

namespace dettax {
namespace {

template <int kWidth>
struct HalvesTile {
  static constexpr int kThreadCount = 128, kQueries = 64, kKeys = 64;
  static constexpr int kStep = kHalvesStep<kWidth>;
  static constexpr int kKeyTiles = kKeys / 8, kColumnTiles = kWidth / 8;
  static constexpr int kBlocks = kWidth <= 128 ? 3 : 1;  // on a multiprocessor
  static constexpr size_t kBytes = (kQueries + 2 * kKeys) * kStep * sizeof(Bf16);
};

struct HalvesWork {
  AttentionSizes s;
  const Bf16* qkv;
  const Bf16* keys_values;
  Bf16* out;
  float* log_sum_exp;
  float scale;  // times log2(e)
  bool by_eight;
};

// Of rows lane / 4 and 8 below of the warp's: maxima of scores times log2(e); totals are the lane's own.
template <int kTiles>
struct RunningHalves {
  float maximum[2], total[2];
  WarpSums<kTiles> out;

  template <int kKeyTiles>
  __device__ void take(WarpSums<kKeyTiles>& scores) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = maximum[half];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        largest = fmaxf(largest, fmaxf(scores.at[n].at[2 * half], scores.at[n].at[2 * half + 1]));
      }
#pragma unroll
      for (int apart = 1; apart < 4; apart *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, apart));
      }
      const float factor = exp2f(maximum[half] - largest);
      maximum[half] = largest;
      total[half] *= factor;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores.at[n].at[i] = exp2f(scores.at[n].at[i] - largest);
          total[half] += scores.at[n].at[i];
        }
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        out.at[n].at[2 * half] *= factor;
        out.at[n].at[2 * half + 1] *= factor;
      }
    }
  }
};

template <int kWidth>
struct HalvesBlock {
  using Tile = HalvesTile<kWidth>;
  using Running = RunningHalves<Tile::kColumnTiles>;
  const HalvesWork& a;
  int64_t sample, head;
  int first;  // query of the block

  // The longest first: the last queries of all heads.
  __device__ explicit HalvesBlock(const HalvesWork& work)
      : a(work),
        sample(block_index() % work.s.all_heads() / work.s.heads),
        head(block_index() % work.s.heads) {
    const int64_t tiles = (work.s.queries + Tile::kQueries - 1) / Tile::kQueries;
    first = static_cast<int>((tiles - 1 - block_index() / work.s.all_heads()) * Tile::kQueries);
  }
  __device__ int warp_query() const { return first + warp_index() * 16; }
  __device__ int query(int half) const { return warp_query() + lane_index() / 4 + half * 8; }
  __device__ HeadRows<Bf16> out() const {
    return a.s.queries_of(a.out, int64_t{a.s.heads} * a.s.width, sample, head);
  }
  __device__ float* log_sum_exp() const { return a.log_sum_exp + a.s.statistics_of(sample, head); }

  __device__ void begin(Running& now) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now.maximum[half] = -INFINITY;
      now.total[half] = 0.0f;
    }
    now.out.clear();
  }
  // Takes up what earlier calls gave.
  __device__ void resume(Running& now) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      now.maximum[half] = query(half) < a.s.queries ? log_sum_exp()[query(half)] * kLog2E : 0.0f;
      now.total[half] = lane_index() % 4 == 0 ? 1.0f : 0.0f;
#pragma unroll
      for (int n = 0; n < Tile::kColumnTiles; ++n) {
        const auto two = read_pair(out(), query(half), n * 8 + lane_index() % 4 * 2);
        now.out.at[n].at[2 * half] = two.at[0];
        now.out.at[n].at[2 * half + 1] = two.at[1];
      }
    }
  }
  __device__ void scale_and_hide(int key, WarpSums<Tile::kKeyTiles>& scores) const {
    const bool hides = a.s.partly_hidden(warp_query(), key, Tile::kKeys);
    scores.for_each([&](int row, int column, float& score) {
      const bool hidden = hides && a.s.hidden(warp_query() + row, key + column);
      score = hidden ? -INFINITY : score * a.scale;
    });
  }
  __device__ void finish(Running& now) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = now.total[half];
#pragma unroll
      for (int apart = 1; apart < 4; apart *= 2) {
        total += __shfl_xor_sync(kWholeWarp, total, apart);
      }
      const float inverse = 1.0f / total;
#pragma unroll
      for (int n = 0; n < Tile::kColumnTiles; ++n) {
        now.out.at[n].at[2 * half] *= inverse;
        now.out.at[n].at[2 * half + 1] *= inverse;
      }
      if (lane_index() % 4 == 0 && query(half) < a.s.queries) {
        log_sum_exp()[query(half)] = (now.maximum[half] + log2f(total)) * kLn2;
      }
    }
    now.out.for_each_pair([&](int row, int column, float left, float right) {
      write_pair(out(), warp_query() + row, column, {{left, right}});
    });
  }
};

template <int kWidth>
__global__ void __launch_bounds__(HalvesTile<kWidth>::kThreadCount, HalvesTile<kWidth>::kBlocks)
    attention_forward_warps(HalvesWork a) {
  using Tile = HalvesTile<kWidth>;
  const AttentionSizes& s = a.s;
  auto* queries = dynamic_shared<Bf16>();
  Bf16* keys = queries + Tile::kQueries * Tile::kStep;
  Bf16* values = keys + Tile::kKeys * Tile::kStep;
  const HalvesBlock<kWidth> block(a);
  const auto key_rows = s.keys_of(a.keys_values, block.sample, block.head / s.group);
  const auto value_rows = s.values_of(a.keys_values, block.sample, block.head / s.group);
  load_halves<Tile::kQueries, kWidth, Tile::kThreadCount>(
      queries, s.queries_of(a.qkv, s.step, block.sample, block.head), block.first, a.by_eight);
  typename HalvesBlock<kWidth>::Running now;
  if (s.causal) {
    block.begin(now);
  } else {
    block.resume(now);
  }
  const int end = s.causal ? smaller(s.keys, block.first + Tile::kQueries) : s.keys;
  for (int key = 0; key < end; key += Tile::kKeys) {
    __syncthreads();
    load_halves<Tile::kKeys, kWidth, Tile::kThreadCount>(keys, key_rows, key, a.by_eight);
    load_halves<Tile::kKeys, kWidth, Tile::kThreadCount>(values, value_rows, key, a.by_eight);
    __syncthreads();
    auto scores = warp_row_products<kWidth, Tile::kStep, Tile::kKeyTiles>(
        queries + warp_index() * 16 * Tile::kStep, keys);
    block.scale_and_hide(key, scores);
    now.take(scores);
    add_weighted_rows<Tile::kStep>(scores, values, now.out);
  }
  block.finish(now);
}

}  // namespace

void attention_forward_halves(const KernelPlace& place, const AttentionForward& call,
                              const AttentionShape& shape) {
  const auto* qkv = data_of<const Bf16>(call.qkv);
  const Bf16* keys_values =
      shape.causal ? qkv + shape.heads * shape.width : data_of<const Bf16>(call.block.keys_values);
  const HalvesWork work{attention_sizes<Bf16>(shape, {qkv, keys_values, call.out.data}),
                        qkv,
                        keys_values,
                        data_of<Bf16>(call.out),
                        call.log_sum_exp.f32(),
                        static_cast<float>(call.scale) * kLog2E,
                        shape.width % 8 == 0 && aligned({qkv, keys_values})};
  by_head_width(shape.width, [&](auto width) {
    using Tile = HalvesTile<decltype(width)::value>;
    launch(place.stream,
           {blocks_for(work.s.queries, Tile::kQueries) * work.s.all_heads(), Tile::kThreadCount,
            Tile::kBytes},
           attention_forward_warps<decltype(width)::value>, work);
  });
}

}  // namespace dettax
