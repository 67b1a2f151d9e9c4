// Sums to one number: the loss and the squares for the gradient norm.
//   fast           blocks share out all values and add their sums to the result by an atomic, in order of arrival
//   deterministic  sums of chunks of kChunk values inside a sample, then the binary tree aligned at the first; chunks of a sample are
//                  filled up to a power of two, so that samples are whole branches of it. A launch more for every factor of 1024.

#include <bit>

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

constexpr int64_t kChunk = 4096;    // elements
constexpr int kTreeThreads = 1024;  // values of a branch that a block adds up

struct ScaledValues {
  const float* values;
  float factor;
  __device__ float of(float value) const { return value * factor; }
};
struct SquaredValues {
  const float* values;
  __device__ float of(float value) const { return value * value; }
};

// Sum of elements [begin, end) that this thread gets when `threads` share them, four at a time where they lie on 16 bytes.
template <class V>
__device__ float share_of(const V& v, int64_t begin, int64_t end, int64_t thread, int64_t threads) {
  float total = 0;
  const bool wide = reinterpret_cast<uintptr_t>(v.values + begin) % 16 == 0;
  const int64_t packs = wide ? (end - begin) / 4 : 0;
  for (int64_t i = thread; i < packs; i += threads) {
    const auto four = load<4>(v.values + begin + 4 * i);
    for (int k = 0; k < 4; ++k) total += v.of(four.at[k]);
  }
  for (int64_t i = begin + 4 * packs + thread; i < end; i += threads) total += v.of(v.values[i]);
  return total;
}

}  // namespace

namespace fast {
namespace {

template <class V>
__global__ void add_all(V v, int64_t count, float* result) {
  const float total = block_sum(share_of(v, 0, count, grid_thread(), grid_threads()));
  if (thread_index() == 0) atomicAdd(result, total);
}

template <class V>
void sum(const KernelPlace& place, const V& v, int64_t count, float* result, bool accumulate) {
  if (!accumulate) set_bytes(place.stream, result, 0, sizeof(float));
  launch(place.stream, {grid_for(count, kChunk, place.multiprocessors)}, add_all<V>, v, count,
         result);
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

struct Chunks {
  int64_t samples, per_sample;  // elements
  int64_t filled;               // chunks of a sample, a power of two
  int64_t count() const { return samples * filled; }
};
Chunks chunks_of(int64_t count, int64_t samples) {
  const int64_t per_sample = count / samples;
  const auto chunks = static_cast<uint64_t>(blocks_for(per_sample, kChunk));
  return {
      samples, per_sample,
      samples == 1 ? static_cast<int64_t>(chunks) : static_cast<int64_t>(std::bit_ceil(chunks))};
}

template <class V>
__global__ void add_chunk(V v, Chunks chunks, float* partials) {
  const int64_t sample = block_index() / chunks.filled;
  const int64_t begin = block_index() % chunks.filled * kChunk;
  float total = 0;
  if (begin < chunks.per_sample) {
    const int64_t end = begin + kChunk < chunks.per_sample ? begin + kChunk : chunks.per_sample;
    const int64_t first = sample * chunks.per_sample;
    total = share_of(v, first + begin, first + end, thread_index(), block_threads());
  }
  total = block_sum(total);
  if (thread_index() == 0) partials[block_index()] = total;
}

// sums[b] = the branch of values b * 1024, ...
__global__ void __launch_bounds__(kTreeThreads)
    add_branches(const float* values, int64_t count, float* sums) {
  const int64_t at = grid_thread();
  const float total = block_sum(at < count ? values[at] : 0.0f);
  if (thread_index() == 0) sums[block_index()] = total;
}

__global__ void finish(const float* sum, float* result, bool accumulate) {
  if (thread_index() == 0) *result = accumulate ? *result + *sum : *sum;
}

// `partials` has room for chunks.count() and all levels above: twice that is enough.
template <class V>
void sum(const KernelPlace& place, const V& v, const Chunks& chunks, float* partials, float* result,
         bool accumulate) {
  launch(place.stream, {chunks.count()}, add_chunk<V>, v, chunks, partials);
  int64_t count = chunks.count();
  while (count > 1) {
    const int64_t branches = blocks_for(count, kTreeThreads);
    launch(place.stream, {branches, kTreeThreads}, add_branches, partials, count, partials + count);
    partials += count;
    count = branches;
  }
  launch(place.stream, {1, 32}, finish, partials, result, accumulate);
}

}  // namespace
}  // namespace deterministic

void CudaKernels::sum_scalar(const SumScalar& call) {
  const int64_t count = call.values.count();
  require(call.result.count() == 1 && count > 0 && call.samples > 0 && count % call.samples == 0,
          "sum_scalar");
  const ScaledValues values{call.values.f32(), static_cast<float>(call.scale)};
  if (call.sum.order == Order::arrival) {
    return fast::sum(place_, values, count, call.result.f32(), false);
  }
  const auto chunks =
      deterministic::chunks_of(count, call.sum.order == Order::invariant ? call.samples : 1);
  float* partials = workspace_floats(2 * chunks.count() + 1);
  deterministic::sum(place_, values, chunks, partials, call.result.f32(), false);
}

void CudaKernels::sum_of_squares(const SumOfSquares& call) {
  const int64_t count = call.values.count();
  require(call.result.count() == 1 && count > 0, "sum_of_squares");
  const SquaredValues values{call.values.f32()};
  if (call.sum.order == Order::arrival) {
    return fast::sum(place_, values, count, call.result.f32(), call.accumulate);
  }
  const auto chunks = deterministic::chunks_of(count, 1);
  float* partials = workspace_floats(2 * chunks.count() + 1);
  deterministic::sum(place_, values, chunks, partials, call.result.f32(), call.accumulate);
}

}  // namespace dettax
