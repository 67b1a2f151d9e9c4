// Sums over rows, a number for each column. A block has the rows of a chunk and the columns of a warp's 32 packs: its warps add rows
// kWarps apart and meet in shared memory. How the chunks' sums meet is the difference:
//   fast           by atomics on the result, in order of arrival
//   deterministic  chunks are cut by rows alone (and at the borders of samples, invariant); their sums are written and added by a
//                  second kernel: a tree over the chunks of a sample and a tree over samples. Costs 1/kChunk more traffic twice.

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

constexpr int64_t kChunk = 256;  // rows
constexpr int kWarps = kThreads / 32;

struct ColumnChunks {
  int64_t samples, rows_per_sample, per_sample;
  int64_t width, tiles;  // of columns
  int64_t count() const { return samples * per_sample; }
};

// Of the block's chunk and columns; only the first warp gets them. Returns the first column, from `width` on if it has none.
template <int kCount, class T>
__device__ int64_t sum_chunk(const T* values, const ColumnChunks& chunks, Floats<kCount>& sum) {
  const int64_t chunk = block_index() / chunks.tiles;
  const int64_t sample = chunk / chunks.per_sample;
  const int64_t begin = chunk % chunks.per_sample * kChunk;
  const int64_t end =
      chunks.rows_per_sample < begin + kChunk ? chunks.rows_per_sample : begin + kChunk;
  const int64_t column = (block_index() % chunks.tiles * 32 + lane_index()) * kCount;
  const T* from = values + sample * chunks.rows_per_sample * chunks.width + column;
  sum = zeros<kCount>();
  for (int64_t row = begin + warp_index(); row < end && column < chunks.width; row += kWarps) {
    const auto more = load<kCount>(from + row * chunks.width);
    for (int k = 0; k < kCount; ++k) sum.at[k] += more.at[k];
  }
  auto* parts = dynamic_shared<Floats<kCount>>();
  parts[thread_index()] = sum;
  __syncthreads();
  if (warp_index() != 0) return chunks.width;
  for (int warp = 1; warp < kWarps; ++warp) {
    for (int k = 0; k < kCount; ++k) sum.at[k] += parts[warp * 32 + lane_index()].at[k];
  }
  return column;
}

}  // namespace

namespace fast {
namespace {

template <class T, int kCount>
__global__ void add_chunk_columns(const T* values, ColumnChunks chunks, float* sums) {
  Floats<kCount> sum;
  const int64_t column = sum_chunk<kCount>(values, chunks, sum);
  if (column < chunks.width) atomic_add<kCount>(sums + column, sum);
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

// partials[chunk, width]
template <class T, int kCount>
__global__ void write_chunk_columns(const T* values, ColumnChunks chunks, float* partials) {
  Floats<kCount> sum;
  const int64_t column = sum_chunk<kCount>(values, chunks, sum);
  if (column < chunks.width) {
    store(partials + block_index() / chunks.tiles * chunks.width + column, sum);
  }
}

__global__ void add_column_partials(const float* partials, ColumnChunks chunks, float* sums,
                                    bool accumulate) {
  for (int64_t c = grid_thread(); c < chunks.width; c += grid_threads()) {
    TreeSum whole;
    for (int64_t s = 0; s < chunks.samples; ++s) {
      TreeSum sample;
      for (int64_t k = 0; k < chunks.per_sample; ++k) {
        sample.add(partials[(s * chunks.per_sample + k) * chunks.width + c]);
      }
      whole.add(sample.sum());
    }
    sums[c] = accumulate ? sums[c] + whole.sum() : whole.sum();
  }
}

}  // namespace
}  // namespace deterministic

void CudaKernels::sum_columns(const SumColumns& call) {
  const int64_t rows = call.values.rows();
  const int64_t width = call.values.columns();
  require(call.sums.count() == width && rows > 0 && call.samples > 0 && rows % call.samples == 0,
          "sum_columns");
  float* sums = call.sums.f32();
  const bool arrival = call.sum.order == Order::arrival;
  const int64_t samples = call.sum.order == Order::invariant ? call.samples : 1;
  ColumnChunks chunks{samples, rows / samples, blocks_for(rows / samples, kChunk), width, 1};
  float* partials = arrival ? nullptr : workspace_floats(chunks.count() * width);
  if (arrival && !call.accumulate) fill_bytes(call.sums, 0);
  by_type_and_width(call.values.type, width, {call.values.data, sums}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    constexpr int kCount = decltype(count)::value;
    chunks.tiles = blocks_for(width, int64_t{32} * kCount);
    launch(place_.stream,
           {chunks.count() * chunks.tiles, kThreads, kThreads * sizeof(Floats<kCount>)},
           arrival ? fast::add_chunk_columns<T, kCount>
                   : deterministic::write_chunk_columns<T, kCount>,
           data_of<T>(call.values), chunks, arrival ? sums : partials);
  });
  if (arrival) return;
  launch(place_.stream, {grid_for(width, kThreads, place_.multiprocessors)},
         deterministic::add_column_partials, partials, chunks, sums, call.accumulate);
}

}  // namespace dettax
