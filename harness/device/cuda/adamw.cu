// AdamW in one pass: 16 bytes read and 12 written for each parameter, all of it f32.

#include <cmath>

#include "harness/device/cuda/launch.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

struct AdamWRange {
  float* weights;
  const float* gradients;
  float* first;
  float* second;
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inverse_correction1, inverse_correction2, epsilon, decay, learning_rate;

  template <int kCount>
  __device__ void at(int64_t i) const {
    const auto g = load<kCount>(gradients + i);
    auto m = load<kCount>(first + i);
    auto v = load<kCount>(second + i);
    auto w = load<kCount>(weights + i);
    for (int k = 0; k < kCount; ++k) {
      const float gradient = g.at[k] * gradient_scale;
      m.at[k] = fmaf(m.at[k], beta1, gradient * one_minus_beta1);
      v.at[k] = fmaf(v.at[k], beta2, gradient * gradient * one_minus_beta2);
      const float root = sqrtf(v.at[k] * inverse_correction2);
      const float direction = m.at[k] * inverse_correction1 / (root + epsilon);
      w.at[k] = fmaf(-learning_rate, fmaf(decay, w.at[k], direction), w.at[k]);
    }
    store(first + i, m);
    store(second + i, v);
    store(weights + i, w);
  }
};

}  // namespace

void CudaKernels::adamw(const AdamW& call) {
  const int64_t count = call.weights.count();
  require_shapes(call);
  const auto step = static_cast<double>(call.step);
  const auto f32 = [](double value) { return static_cast<float>(value); };
  const AdamWRange range{call.weights.f32(),
                         call.gradients.f32(),
                         call.first_moment.f32(),
                         call.second_moment.f32(),
                         f32(call.gradient_scale),
                         f32(call.beta1),
                         f32(1 - call.beta1),
                         f32(call.beta2),
                         f32(1 - call.beta2),
                         f32(1 / (1 - std::pow(call.beta1, step))),
                         f32(1 / (1 - std::pow(call.beta2, step))),
                         f32(call.epsilon),
                         f32(call.weight_decay),
                         f32(call.learning_rate)};
  if (aligned({range.weights, range.gradients, range.first, range.second})) {
    launch_for_each<4>(place_, count, range);
  } else {
    launch_for_each<1>(place_, count, range);
  }
}

}  // namespace dettax
