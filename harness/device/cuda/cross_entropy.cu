// Softmax cross-entropy in place, a block a row: one pass finds the maximum and the sum of exponentials together, each thread
// rescaling its sum when its maximum grows; a second one writes the gradient, its row still in the cache. Every sum is a row's own, in
// a fixed order. `generic` composes it as a framework does under deterministic index operations: log-sum-exp, a gather of the
// targets' logits, softmax, a scatter of the correction.

#include "harness/device/cuda/softmax.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int kRowThreads = 512;

template <class T>
struct LossRows {
  float* losses;
  T* logits;
  const int32_t* targets;
  int64_t rows, width, vocabulary;
  float factor;
};

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_rows(LossRows<T> a, uint32_t* faults) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    T* logits = a.logits + row * a.width;
    int64_t target = a.targets[row];
    if (target < 0 || target >= a.vocabulary) {
      if (thread_index() == 0) report(faults, KernelFault::target);
      target = 0;
    }
    const float at_target = to_float(logits[target]);
    const SoftmaxSum sum = softmax_sum<kCount>(logits, a.vocabulary, a.width);
    if (thread_index() == 0) a.losses[row] = logf(sum.total) - (at_target - sum.maximum);
    write_gradient<kCount>(logits, {sum.maximum, a.factor / sum.total, a.factor}, target,
                           a.vocabulary, a.width);
  }
}

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads) log_sum_exp_rows(LossRows<T> a, float* sums) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    const SoftmaxSum sum = softmax_sum<kCount>(a.logits + row * a.width, a.vocabulary, a.width);
    if (thread_index() == 0) sums[row] = sum.maximum + logf(sum.total);
  }
}

template <class T>
__global__ void gather_targets(LossRows<T> a, const float* sums, uint32_t* faults) {
  for (int64_t row = grid_thread(); row < a.rows; row += grid_threads()) {
    const int64_t target = a.targets[row];
    const bool held = target >= 0 && target < a.vocabulary;
    if (!held) report(faults, KernelFault::target);
    a.losses[row] = sums[row] - to_float(a.logits[row * a.width + (held ? target : 0)]);
  }
}

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads) softmax_rows(LossRows<T> a, const float* sums) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    write_gradient<kCount>(a.logits + row * a.width, {sums[row], a.factor, a.factor}, kNoTarget,
                           a.vocabulary, a.width);
  }
}

template <class T>
__global__ void scatter_targets(LossRows<T> a) {
  for (int64_t row = grid_thread(); row < a.rows; row += grid_threads()) {
    const int64_t target = a.targets[row];
    if (target < 0 || target >= a.vocabulary) continue;
    T& at = a.logits[row * a.width + target];
    at = stored<T>(to_float(at) - a.factor);
  }
}

}  // namespace

void CudaKernels::cross_entropy(const CrossEntropy& call) {
  const int64_t rows = call.logits.rows();
  const int64_t width = call.logits.columns();
  require_shapes(call);
  float* sums = call.generic ? workspace_floats(rows) : nullptr;
  by_type_and_width(call.logits.type, width, {call.logits.data}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    constexpr int kCount = decltype(count)::value;
    const LossRows<T> a{call.losses.f32(),
                        data_of<T>(call.logits),
                        call.targets.i32(),
                        rows,
                        width,
                        call.vocabulary,
                        static_cast<float>(call.gradient_scale)};
    const LaunchShape row_shape{grid_for(rows, 1, place_.multiprocessors),
                                threads_for(blocks_for(width, kCount), kRowThreads)};
    if (!call.generic) {
      return launch(place_.stream, row_shape, cross_entropy_rows<T, kCount>, a, fault_word());
    }
    const LaunchShape index_shape{grid_for(rows, kThreads, place_.multiprocessors)};
    launch(place_.stream, row_shape, log_sum_exp_rows<T, kCount>, a, sums);
    launch(place_.stream, index_shape, gather_targets<T>, a, sums, fault_word());
    launch(place_.stream, row_shape, softmax_rows<T, kCount>, a, sums);
    launch(place_.stream, index_shape, scatter_targets<T>, a);
  });
}

}  // namespace dettax
