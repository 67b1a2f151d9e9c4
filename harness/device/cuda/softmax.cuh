#pragma once

#include <cfloat>
#include <cstdint>

#include "harness/device/cuda/launch.cuh"

namespace dettax {

// The passes over a row of logits that every form of the loss is made of. A row belongs to a block.

struct SoftmaxSum {
  float maximum, total;  // total of exp(logit - maximum)
};

template <int kCount, class T>
__device__ float row_maximum(const T* logits, int64_t vocabulary, int64_t width) {
  float maximum = -FLT_MAX;
  for (int64_t c = int64_t{thread_index()} * kCount; c < width;
       c += int64_t{block_threads()} * kCount) {
    const auto values = load<kCount>(logits + c);
    for (int k = 0; k < kCount; ++k) {
      if (c + k < vocabulary) maximum = fmaxf(maximum, values.at[k]);
    }
  }
  return block_max(maximum);
}

template <int kCount, class T>
__device__ SoftmaxSum softmax_sum(const T* logits, int64_t vocabulary, int64_t width) {
  float maximum = -FLT_MAX;
  float total = 0;
  for (int64_t c = int64_t{thread_index()} * kCount; c < width;
       c += int64_t{block_threads()} * kCount) {
    const auto values = load<kCount>(logits + c);
    float largest = maximum;
    for (int k = 0; k < kCount; ++k) {
      if (c + k < vocabulary) largest = fmaxf(largest, values.at[k]);
    }
    total *= expf(maximum - largest);
    maximum = largest;
    for (int k = 0; k < kCount; ++k) {
      if (c + k < vocabulary) total += expf(values.at[k] - maximum);
    }
  }
  const float whole = block_max(maximum);
  return {whole, block_sum(total * expf(maximum - whole))};
}

inline constexpr int64_t kNoTarget = -1;

struct GradientScale {
  float maximum, of_exponential, at_target;
};

// logits become of_exponential * exp(logit - maximum), less at_target in the target's column; columns from `vocabulary` on become 0.
template <int kCount, class T>
__device__ void write_gradient(T* logits, const GradientScale& scale, int64_t target,
                               int64_t vocabulary, int64_t width) {
  for (int64_t c = int64_t{thread_index()} * kCount; c < width;
       c += int64_t{block_threads()} * kCount) {
    auto values = load<kCount>(logits + c);
    for (int k = 0; k < kCount; ++k) {
      float& v = values.at[k];
      v = c + k < vocabulary ? expf(v - scale.maximum) * scale.of_exponential : 0.0f;
      if (c + k == target) v -= scale.at_target;
    }
    store(logits + c, values);
  }
}

}  // namespace dettax
