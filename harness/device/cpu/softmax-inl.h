// The passes over a row of logits that every form of the loss is made of.

// Highway's guard: the file is read once for each target.
#if defined(DETTAX_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_SOFTMAX_INL_H
#undef DETTAX_SOFTMAX_INL_H
#else
#define DETTAX_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <limits>

#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

HWY_INLINE float row_maximum(const float* x, size_t count) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  Lanes m[4] = {set(kLowest), set(kLowest), set(kLowest), set(kLowest)};
  size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (size_t g = 0; g < 4; ++g) m[g] = max(m[g], load(x + i + g * kLanes));
  }
  for (; i < count; i += kLanes) {
    const Rest rest{std::min(kLanes, count - i)};
    m[0] = max(m[0], rest.valid_or(rest.read(x + i), kLowest));
  }
  return largest(max(max(m[0], m[1]), max(m[2], m[3])));
}

// exp(x - maximum), kept in x if `keep`; returns its sum.
template <bool keep>
HWY_INLINE float exp_and_sum(float* x, float maximum, size_t count) {
  const Lanes m = set(maximum);
  return row_sum(count, [&](auto access, size_t i, const Lanes& partial) {
    const Lanes e = exp_nonpositive(sub(access.read(x + i), m));
    if constexpr (keep) access.write(e, x + i);
    return add(partial, access.valid_or(e, 0.0f));
  });
}

// x *= factor.
HWY_INLINE void scale_row(float* x, float factor, size_t count) {
  const Lanes f = set(factor);
  for_each_lanes(count,
                 [&](auto access, size_t i) { access.write(mul(access.read(x + i), f), x + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
