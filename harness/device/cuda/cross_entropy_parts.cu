// Softmax cross-entropy over a part of the vocabulary: the passes of cross_entropy.cu, with ranks meeting between them.

#include "harness/device/checks.h"
#include "harness/device/cuda/softmax.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int kRowThreads = 512;

template <class T>
struct PartRows {
  T* logits;
  int64_t rows, width, vocabulary;
};

// Column of a row's target; kNoTarget if it is not among these ids.
struct TargetColumns {
  const int32_t* targets;
  int64_t first_id, vocabulary;
  __device__ int64_t of(int64_t row) const {
    const int64_t column = targets[row] - first_id;
    return column >= 0 && column < vocabulary ? column : kNoTarget;
  }
};

// The largest of what ranks have for a row: maxima[ranks, rows].
struct RankMaxima {
  const float* maxima;
  int64_t ranks;
  __device__ float of(int64_t row, int64_t rows) const {
    float maximum = maxima[row];
    for (int64_t k = 1; k < ranks; ++k) maximum = fmaxf(maximum, maxima[k * rows + row]);
    return maximum;
  }
};

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads) maxima_of_rows(PartRows<T> a, float* maxima) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    const float maximum = row_maximum<kCount>(a.logits + row * a.width, a.vocabulary, a.width);
    if (thread_index() == 0) maxima[row] = maximum;
  }
}

// sums[0, rows) = sums of exponentials; sums[rows, 2 rows) = the target's logit - maximum unless `generic`.
template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads)
    exponentials_of_rows(PartRows<T> a, float* sums, RankMaxima maxima, TargetColumns columns,
                         bool generic) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    T* logits = a.logits + row * a.width;
    const float maximum = maxima.of(row, a.rows);
    const int64_t target = columns.of(row);
    const float at_target = target == kNoTarget ? 0.0f : to_float(logits[target]) - maximum;
    __syncthreads();  // before the logit is overwritten
    float total = 0;
    for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
         c += int64_t{block_threads()} * kCount) {
      auto values = load<kCount>(logits + c);
      for (int k = 0; k < kCount; ++k) {
        if (c + k >= a.vocabulary) continue;
        values.at[k] = expf(values.at[k] - maximum);
        total += values.at[k];
      }
      store(logits + c, values);
    }
    total = block_sum(total);
    if (thread_index() != 0) continue;
    sums[row] = total;
    if (!generic) sums[a.rows + row] = at_target;
  }
}

template <class T>
__global__ void gather_part(PartRows<T> a, float* at_target, RankMaxima maxima,
                            TargetColumns columns) {
  for (int64_t row = grid_thread(); row < a.rows; row += grid_threads()) {
    const int64_t target = columns.of(row);
    at_target[row] = target == kNoTarget
                         ? 0.0f
                         : to_float(a.logits[row * a.width + target]) - maxima.of(row, a.rows);
  }
}

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads)
    gradients_of_rows(PartRows<T> a, float* losses, const float* sums, TargetColumns columns,
                      float factor) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    T* logits = a.logits + row * a.width;
    const float scale = factor / sums[row];
    const int64_t target = columns.targets == nullptr ? kNoTarget : columns.of(row);
    if (thread_index() == 0) losses[row] = logf(sums[row]) - sums[a.rows + row];
    for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
         c += int64_t{block_threads()} * kCount) {
      auto values = load<kCount>(logits + c);
      for (int k = 0; k < kCount; ++k) {
        values.at[k] = c + k < a.vocabulary ? values.at[k] * scale : 0.0f;
        if (c + k == target) values.at[k] -= factor;
      }
      store(logits + c, values);
    }
  }
}

template <class T>
__global__ void scatter_part(PartRows<T> a, TargetColumns columns, float factor) {
  for (int64_t row = grid_thread(); row < a.rows; row += grid_threads()) {
    const int64_t target = columns.of(row);
    if (target == kNoTarget) continue;
    T& at = a.logits[row * a.width + target];
    at = stored<T>(to_float(at) - factor);
  }
}

// f(rows, numbers at once, shape of a launch with a block a row)
template <class F>
void over_rows(const KernelPlace& place, const Tensor& logits, int64_t vocabulary, const F& f) {
  by_type_and_width(logits.type, logits.columns(), {logits.data}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    const int64_t packs = blocks_for(logits.columns(), decltype(count)::value);
    const LaunchShape shape{grid_for(logits.rows(), 1, place.multiprocessors),
                            threads_for(packs, kRowThreads)};
    f(PartRows<T>{data_of<T>(logits), logits.rows(), logits.columns(), vocabulary}, count, shape);
  });
}

}  // namespace

void CudaKernels::cross_entropy_maxima(const CrossEntropyMaxima& call) {
  require(call.maxima.count() == call.logits.rows() && call.vocabulary >= 0 &&
              call.vocabulary <= call.logits.columns(),
          "cross_entropy_maxima");
  over_rows(place_, call.logits, call.vocabulary, [&](auto rows, auto count, const auto& shape) {
    using T = std::remove_reference_t<decltype(*rows.logits)>;
    launch(place_.stream, shape, maxima_of_rows<T, decltype(count)::value>, rows,
           call.maxima.f32());
  });
}

void CudaKernels::cross_entropy_sums(const CrossEntropySums& call) {
  const int64_t rows = call.logits.rows();
  require_shapes(call);
  const RankMaxima maxima{call.maxima.f32(), call.maxima.count() / rows};
  const TargetColumns columns{call.targets.i32(), call.first_id, call.vocabulary};
  float* sums = call.sums.f32();
  over_rows(place_, call.logits, call.vocabulary, [&](auto part, auto count, const auto& shape) {
    using T = std::remove_reference_t<decltype(*part.logits)>;
    if (call.generic) {
      launch(place_.stream, {grid_for(rows, kThreads, place_.multiprocessors)}, gather_part<T>,
             part, sums + rows, maxima, columns);
    }
    launch(place_.stream, shape, exponentials_of_rows<T, decltype(count)::value>, part, sums,
           maxima, columns, call.generic);
  });
}

void CudaKernels::cross_entropy_from_sums(const CrossEntropyFromSums& call) {
  const int64_t rows = call.logits.rows();
  require_shapes(call);
  const auto factor = static_cast<float>(call.gradient_scale);
  const TargetColumns columns{call.targets.i32(), call.first_id, call.vocabulary};
  over_rows(place_, call.logits, call.vocabulary, [&](auto part, auto count, const auto& shape) {
    using T = std::remove_reference_t<decltype(*part.logits)>;
    launch(place_.stream, shape, gradients_of_rows<T, decltype(count)::value>, part,
           call.losses.f32(), call.sums.f32(), call.generic ? TargetColumns{} : columns, factor);
    if (call.generic) {
      launch(place_.stream, {grid_for(rows, kThreads, place_.multiprocessors)}, scatter_part<T>,
             part, columns, factor);
    }
  });
}

}  // namespace dettax
