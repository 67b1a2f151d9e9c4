// LayerNorm and RMSNorm, forward: each row on its own, read once from memory and then from L1. While
// the last pass over a row runs, the next row is fetched.

#include <cmath>

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/norm_forward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// Returns 1 / sqrt(mean square of x - center + epsilon).
float inverse_deviation(const float* x, float center, float epsilon, size_t width) {
  const Lanes c = set(center);
  const float squares = row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    const Lanes v = access.valid_or(sub(access.read(x + i), c), 0.0f);
    return mul_add(v, v, partial);
  });
  return 1.0f / std::sqrt(squares / static_cast<float>(width) + epsilon);
}

void layer_norm_row(float* y, float* mean, float* rstd, const float* x, const float* gamma,
                    const float* beta, float epsilon, size_t width) {
  const float total = row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    return add(partial, access.read(x + i));
  });
  *mean = total / static_cast<float>(width);
  *rstd = inverse_deviation(x, *mean, epsilon, width);
  const Lanes center = set(*mean);
  const Lanes factor = set(*rstd);
  for_each_lanes(width, [&](auto access, size_t i) {
    const Lanes normal = mul(sub(access.read(x + i), center), factor);
    hwy::Prefetch(x + width + i);
    const Lanes offset = beta == nullptr ? set(0.0f) : access.read(beta + i);
    access.write(mul_add(normal, access.read(gamma + i), offset), y + i);
  });
}

void rms_norm_row(float* y, float* rstd, const float* x, const float* gamma, float epsilon,
                  size_t width) {
  *rstd = inverse_deviation(x, 0.0f, epsilon, width);
  const Lanes factor = set(*rstd);
  for_each_lanes(width, [&](auto access, size_t i) {
    hwy::Prefetch(x + width + i);
    access.write(mul(mul(access.read(x + i), factor), access.read(gamma + i)), y + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(layer_norm_row);
HWY_EXPORT(rms_norm_row);
}  // namespace

void CpuOps::norm_forward(const NormForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require_shapes(call);
  float* y = call.y.f32();
  float* mean = layer ? call.mean.f32() : nullptr;
  float* rstd = call.rstd.f32();
  const float* x = call.x.f32();
  const float* gamma = call.gamma.f32();
  const float* beta = call.beta ? call.beta.f32() : nullptr;
  const auto epsilon = static_cast<float>(call.epsilon);
  const auto n = static_cast<size_t>(width);
  const auto layer_row = HWY_DYNAMIC_DISPATCH(layer_norm_row);
  const auto rms_row = HWY_DYNAMIC_DISPATCH(rms_norm_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * width;
      if (layer) {
        layer_row(y + at, mean + r, rstd + r, x + at, gamma, beta, epsilon, n);
      } else {
        rms_row(y + at, rstd + r, x + at, gamma, epsilon, n);
      }
    }
  });
}

}  // namespace dettax
#endif
