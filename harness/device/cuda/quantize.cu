// Rounding to narrow formats with scales, the bits of harness/device/cpu/quantize.cpp: the numbers stay in the type they came in. A
// group's maximum has no order, and every group is on its own, so that there is one form for all modes.

#include <cmath>

#include "harness/device/checks.h"
#include "harness/device/cpu/quantize.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

__device__ inline float not_a_number() { return __uint_as_float(0x7FC00000U); }
__device__ inline uint32_t magnitude(float v) { return __float_as_uint(v) & 0x7FFFFFFFU; }
__device__ inline bool finite(float v) { return magnitude(v) < 0x7F800000U; }

// 2^exponent for exponents of normal numbers.
__device__ inline float power_of_two(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23U);
}

// The exponent of a positive number, subnormal ones too.
__device__ inline int exponent_of(float v) {
  const auto biased = static_cast<int>(__float_as_uint(v) >> 23U);
  if (biased > 0) return biased - 127;
  return static_cast<int>(__float_as_uint(v * power_of_two(24)) >> 23U) - 127 - 24;
}

// The largest power of two not above limit / amax, from the quotient's exponent in double precision.
__device__ float power_below(float limit, float amax) {
  if (!finite(amax)) return not_a_number();
  if (amax == 0.0f) return 1.0f;
  const int exponent = ilogb(static_cast<double>(limit) / static_cast<double>(amax));
  return power_of_two(exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

// See Rounding in cpu/quantize.h.
__device__ float rounded(float v, const Rounding& r) {
  if (magnitude(v) > 0x7F800000U) return r.nan;
  const auto kept = static_cast<uint32_t>(r.mantissa_bits);
  if (r.full_range) {
    const uint32_t cut = 23U - kept;
    const uint32_t bits = __float_as_uint(v);
    if (cut == 0) return v;
    return __uint_as_float((bits + ((1U << (cut - 1)) - 1) + (bits >> cut & 1U)) &
                           ~((1U << cut) - 1));
  }
  const float size = fminf(__uint_as_float(magnitude(v)), 2 * r.largest);
  const uint32_t own = __float_as_uint(size) >> 23U;
  const auto lowest = static_cast<uint32_t>(r.lowest_exponent + 127);
  const uint32_t unit = (own < lowest ? lowest : own) + 23U - kept;
  const float magic = __uint_as_float(unit << 23U | 0x400000U);
  const float whole = size + magic - magic;
  return copysignf(whole > r.largest ? r.overflow : whole, v);
}

struct ScaleRule {
  Rounding rounding;
  const float* amax;  // of the whole tensor, or null
  float limit;        // what amax is brought just below
  int64_t block;
  bool powers_of_two;
  int format_exponent;
  Rounding scale_rounding;  // of a block's scale, unless it is a power of two

  __device__ float of_tensor() const { return amax == nullptr ? 1.0f : power_below(limit, *amax); }
  // As BlockRounding::block_scale. 0: every element is 0.
  __device__ float of_block(float largest, float before) const {
    if (!finite(largest) || magnitude(before) > 0x7F800000U) return not_a_number();
    if (largest == 0.0f) return 0.0f;
    if (powers_of_two) {
      const int exponent = exponent_of(largest) - format_exponent;
      return power_of_two(exponent < -126 ? -126 : exponent);
    }
    return rounded(largest * before / rounding.largest, scale_rounding);
  }
};

template <class T>
struct RoundRange {
  T* y;
  const T* x;
  ScaleRule rule;
  template <int kCount>
  __device__ void at(int64_t i) const {
    const float up = rule.of_tensor();
    const float down = 1.0f / up;
    auto values = load<kCount>(x + i);
    for (int k = 0; k < kCount; ++k) {
      values.at[k] = rounded(values.at[k] * up, rule.rounding) * down;
    }
    store(y + i, values);
  }
};

// The larger magnitude; NaN and infinity are behind all numbers.
__device__ inline float larger(float a, float b) {
  const uint32_t x = magnitude(a);
  const uint32_t y = magnitude(b);
  return __uint_as_float(x > y ? x : y);
}

// A thread a group of elements that share a scale: elements lie `step` apart, at most rule.block of them. Groups are numbered so that
// neighbouring threads have neighbouring columns when a group runs down a column.
template <class T>
__global__ void round_groups(T* y, const T* x, int64_t rows, int64_t columns, bool along_rows,
                             ScaleRule rule) {
  const int64_t in_line = along_rows ? (columns + rule.block - 1) / rule.block : columns;
  const int64_t lines = along_rows ? rows : (rows + rule.block - 1) / rule.block;
  const float before = rule.of_tensor();
  const float after = 1.0f / before;
  for (int64_t i = grid_thread(); i < lines * in_line; i += grid_threads()) {
    const int64_t row = along_rows ? i / in_line : i / in_line * rule.block;
    const int64_t column = along_rows ? i % in_line * rule.block : i % in_line;
    const int64_t left = along_rows ? columns - column : rows - row;
    const int64_t count = left < rule.block ? left : rule.block;
    const int64_t step = along_rows ? 1 : columns;
    const int64_t first = row * columns + column;
    float largest = 0;
    for (int64_t k = 0; k < count; ++k) largest = larger(largest, to_float(x[first + k * step]));
    const float scale = rule.of_block(largest, before);
    for (int64_t k = 0; k < count; ++k) {
      const float value = to_float(x[first + k * step]) * before / scale;
      y[first + k * step] =
          stored<T>(scale == 0.0f ? 0.0f : rounded(value, rule.rounding) * scale * after);
    }
  }
}

template <class T>
__global__ void find_largest(const T* values, int64_t count, uint32_t* largest) {
  uint32_t own = 0;
  for (int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const uint32_t bits = magnitude(to_float(values[i]));
    own = bits > own ? bits : own;
  }
  for (int apart = 1; apart < 32; apart *= 2) {
    const uint32_t other = __shfl_xor_sync(kWholeWarp, own, apart);
    own = other > own ? other : own;
  }
  if (lane_index() == 0) atomicMax(largest, own);
}

ScaleRule rule_of(const Quantize& call) {
  ScaleRule rule{};
  rule.rounding = rounding_of(call.format);
  rule.block = call.block;
  rule.powers_of_two = call.scale_format == NumberFormat::e8m0;
  rule.format_exponent = std::ilogb(rule.rounding.largest);
  const bool blocks =
      call.group == ScaleGroup::along_rows || call.group == ScaleGroup::along_columns;
  if (blocks && !rule.powers_of_two) {
    rule.scale_rounding = rounding_of(call.scale_format);
    rule.amax = call.amax.f32();
    rule.limit = rule.rounding.largest * info(call.scale_format).largest;
  } else if (call.group == ScaleGroup::tensor) {
    rule.amax = call.amax.f32();
    rule.limit = rule.rounding.largest;
  }
  return rule;
}

}  // namespace

void CudaKernels::absolute_maximum(const AbsoluteMaximum& call) {
  require(call.result.count() == 1, "absolute_maximum");
  float* result = call.result.f32();
  set_bytes(place_.stream, result, 0, sizeof(float));
  by_type(call.values.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(place_.stream, {grid_for(call.values.count(), 4 * kThreads, place_.multiprocessors)},
           find_largest<T>, data_of<T>(call.values), call.values.count(),
           reinterpret_cast<uint32_t*>(result));
  });
}

void CudaKernels::quantize(const Quantize& call) {
  require(call.y.count() == call.x.count() && call.y.type == call.x.type, "quantize");
  const ScaleRule rule = rule_of(call);
  const bool along_rows = call.group == ScaleGroup::along_rows;
  if (along_rows || call.group == ScaleGroup::along_columns) {
    require(call.block > 0, "quantize");
    const int64_t rows = call.x.rows();
    const int64_t columns = call.x.columns();
    by_type(call.x.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch(
          place_.stream, {grid_for(call.x.count(), kThreads * call.block, place_.multiprocessors)},
          round_groups<T>, data_of<T>(call.y), data_of<T>(call.x), rows, columns, along_rows, rule);
    });
    return;
  }
  by_type(call.x.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RoundRange<T> range{data_of<T>(call.y), data_of<T>(call.x), rule};
    if (aligned({call.y.data, call.x.data})) {
      launch_for_each<kWide<T>>(place_, call.x.count(), range);
    } else {
      launch_for_each<1>(place_, call.x.count(), range);
    }
  });
}

}  // namespace dettax
