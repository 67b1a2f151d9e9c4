#include "harness/device/cpu/expert_rows.h"

#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/expert_rows.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

void combine_row(float* y, const float* residual, const ChosenRows& chosen) {
  for_each_lanes(chosen.width, [&](auto access, size_t i) {
    Lanes total = set(0.0f);
    for (int64_t k = 0; k < chosen.choices; ++k) {
      if (chosen.slots[k] < 0) continue;
      const float weight = chosen.weights == nullptr ? 1.0f : chosen.weights[k];
      const float* row = chosen.rows + static_cast<size_t>(chosen.slots[k]) * chosen.width;
      total = mul_add(set(weight), access.read(row + i), total);
    }
    access.write(residual == nullptr ? total : add(access.read(residual + i), total), y + i);
  });
}

void add_weighted_row(float* to, const float* base, const float* from, float weight, size_t width) {
  const Lanes w = set(weight);
  for_each_lanes(width, [&](auto access, size_t i) {
    access.write(mul_add(w, access.read(from + i), access.read(base + i)), to + i);
  });
}

void scaled_row(float* to, const float* from, float weight, size_t width) {
  const Lanes w = set(weight);
  for_each_lanes(
      width, [&](auto access, size_t i) { access.write(mul(w, access.read(from + i)), to + i); });
}

// Lanes behind the end read as 0 and add nothing.
float backward_row(float* drow, const float* dy, const float* row, float weight, size_t width) {
  const Lanes w = set(weight);
  return row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    const Lanes g = access.read(dy + i);
    access.write(mul(w, g), drow + i);
    return mul_add(g, access.read(row + i), partial);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(combine_row);
HWY_EXPORT(add_weighted_row);
HWY_EXPORT(scaled_row);
HWY_EXPORT(backward_row);
}  // namespace

RowKernels row_kernels() {
  return {HWY_DYNAMIC_DISPATCH(combine_row), HWY_DYNAMIC_DISPATCH(add_weighted_row),
          HWY_DYNAMIC_DISPATCH(scaled_row), HWY_DYNAMIC_DISPATCH(backward_row)};
}

}  // namespace dettax
#endif
