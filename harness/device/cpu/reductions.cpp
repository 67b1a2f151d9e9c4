// Sums to one number. Loss: chunks of 16 rows. Gradient norm: chunks of 4 Ki elements. How the
// sums of the chunks meet is the only difference between the variants:
//   arrival    each chunk's sum is added to the result by an atomic as it is done
//   ordered    each thread adds up its own chunks, the threads' sums are added in thread order
//   invariant  loss: a chain in each sample, then a tree over samples; norm: a tree over chunks

#include <algorithm>
#include <atomic>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/cpu/tree_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/reductions.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

float squares_of(const float* values, size_t count) {
  return row_sum(count, [&](auto access, size_t i, const Lanes& partial) {
    const Lanes v = access.read(values + i);
    return mul_add(v, v, partial);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(squares_of);

constexpr int64_t kScalarChunk = 16;
constexpr int64_t kSquaresChunk = 4096;

// Sum of chunk_sum(0) .. chunk_sum(chunks - 1), added to `old`.
template <class ChunkSum>
float combine(Team& team, Scratch& scratch, int64_t chunks, const SumOrder& sum, float old,
              const ChunkSum& chunk_sum) {
  if (sum.order == Order::arrival) {
    float result = old;
    team.parallel_for(chunks, 1, sum.dynamic_schedule, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) {
        std::atomic_ref<float>(result).fetch_add(chunk_sum(c), std::memory_order_relaxed);
      }
    });
    return result;
  }
  if (sum.order == Order::ordered) {
    constexpr size_t kApart = 16;  // floats: a cache line for each thread
    const auto threads = static_cast<size_t>(team.size());
    float* partial = scratch.floats(threads * kApart);
    std::fill_n(partial, threads * kApart, 0.0f);
    team.parallel_for(chunks, 1, sum.dynamic_schedule, [&](int64_t begin, int64_t end, int thread) {
      float& own = partial[static_cast<size_t>(thread) * kApart];
      for (int64_t c = begin; c < end; ++c) own += chunk_sum(c);
    });
    float whole = 0;
    for (size_t t = 0; t < threads; ++t) whole += partial[t * kApart];
    return old + whole;
  }
  float* partial = scratch.floats(static_cast<size_t>(chunks));
  team.parallel_for(chunks, 1, sum.dynamic_schedule, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) partial[c] = chunk_sum(c);
  });
  tree_sum(partial, chunks, 1);
  return old + partial[0];
}

}  // namespace

void CpuOps::sum_scalar(const SumScalar& call) {
  const int64_t count = call.values.count();
  require(call.result.count() == 1 && count > 0 && call.samples > 0 && count % call.samples == 0,
          "sum_scalar");
  const float* values = call.values.f32();
  const auto scale = static_cast<float>(call.scale);
  const int64_t rows = call.sum.order == Order::invariant ? count / call.samples : kScalarChunk;
  // Each value is scaled before it is added, so that sums of parts add up exactly to those of the
  // whole tree whatever the scale.
  const auto chunk_sum = [&](int64_t chunk) {
    const int64_t end = std::min(count, (chunk + 1) * rows);
    float total = 0;
    for (int64_t i = chunk * rows; i < end; ++i) total += values[i] * scale;
    return total;
  };
  *call.result.f32() =
      combine(team_, scratch_, (count + rows - 1) / rows, call.sum, 0.0f, chunk_sum);
}

void CpuOps::sum_of_squares(const SumOfSquares& call) {
  const int64_t count = call.values.count();
  require(call.result.count() == 1 && count > 0, "sum_of_squares");
  const float* values = call.values.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(squares_of);
  const auto chunk_sum = [&](int64_t chunk) {
    const int64_t begin = chunk * kSquaresChunk;
    return kernel(values + begin, static_cast<size_t>(std::min(count - begin, kSquaresChunk)));
  };
  float* result = call.result.f32();
  const float old = call.accumulate ? *result : 0.0f;
  *result = combine(team_, scratch_, (count + kSquaresChunk - 1) / kSquaresChunk, call.sum, old,
                    chunk_sum);
}

}  // namespace dettax
#endif
