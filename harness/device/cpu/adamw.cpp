// AdamW in one pass: 16 bytes read and 12 written for each parameter, which memory bandwidth
// bounds. Non-temporal stores would not help, since every line that is written has been read
// before.

#include <cmath>

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/adamw.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

#ifndef DETTAX_CPU_ADAMW_TYPES
#define DETTAX_CPU_ADAMW_TYPES
namespace dettax {
namespace {
struct AdamWFactors {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inverse_correction1, inverse_correction2, epsilon, decay, learning_rate;
};
}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

void adamw_range(float* weights, const float* gradients, float* first, float* second, size_t count,
                 const AdamWFactors& f) {
  const FloatTag d;
  const auto both = [&](auto access, size_t i) {
    const Lanes gradient = mul(access.read(gradients + i), set(f.gradient_scale));
    const Lanes m =
        mul_add(access.read(first + i), set(f.beta1), mul(gradient, set(f.one_minus_beta1)));
    const Lanes v = mul_add(access.read(second + i), set(f.beta2),
                            mul(mul(gradient, gradient), set(f.one_minus_beta2)));
    const Lanes w = access.read(weights + i);
    const Lanes updated = each_part([&](size_t p) {
      const auto root = hn::Sqrt(hn::Mul(v.part[p], hn::Set(d, f.inverse_correction2)));
      const auto direction = hn::Div(hn::Mul(m.part[p], hn::Set(d, f.inverse_correction1)),
                                     hn::Add(root, hn::Set(d, f.epsilon)));
      const auto step = hn::MulAdd(hn::Set(d, f.decay), w.part[p], direction);
      return hn::NegMulAdd(hn::Set(d, f.learning_rate), step, w.part[p]);
    });
    access.write(m, first + i);
    access.write(v, second + i);
    access.write(updated, weights + i);
  };
  for_each_lanes(count, both);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(adamw_range);
}

void CpuOps::adamw(const AdamW& call) {
  const int64_t count = call.weights.count();
  require_shapes(call);
  const auto step = static_cast<double>(call.step);
  const auto f32 = [](double value) { return static_cast<float>(value); };
  const AdamWFactors factors{.gradient_scale = f32(call.gradient_scale),
                             .beta1 = f32(call.beta1),
                             .one_minus_beta1 = f32(1 - call.beta1),
                             .beta2 = f32(call.beta2),
                             .one_minus_beta2 = f32(1 - call.beta2),
                             .inverse_correction1 = f32(1 / (1 - std::pow(call.beta1, step))),
                             .inverse_correction2 = f32(1 / (1 - std::pow(call.beta2, step))),
                             .epsilon = f32(call.epsilon),
                             .decay = f32(call.weight_decay),
                             .learning_rate = f32(call.learning_rate)};
  float* w = call.weights.f32();
  const float* g = call.gradients.f32();
  float* m = call.first_moment.f32();
  float* v = call.second_moment.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(adamw_range);
  team_.parallel_for(count, 16384, false, [&](int64_t begin, int64_t end, int) {
    kernel(w + begin, g + begin, m + begin, v + begin, static_cast<size_t>(end - begin), factors);
  });
}

}  // namespace dettax
#endif
