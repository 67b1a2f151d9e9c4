#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "harness/device/number_format.h"
#include "harness/device/ops.h"

namespace dettax {

// What a kernel needs to know of a format.
struct Rounding {
  bool full_range = false;  // the exponents of f32
  int mantissa_bits = 0, lowest_exponent = 0;
  float largest = 0, overflow = 0, nan = 0;
};
Rounding rounding_of(NumberFormat format);

inline uint32_t magnitude_bits(float value) { return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU; }

// The power of two that brings `amax` just below the largest number of a format; 1 for zero, NaN for what is not finite.
float tensor_scale(NumberFormat format, float amax);

// How the blocks of a tensor are rounded: x is multiplied by `before` and divided by its block's scale.
struct BlockRounding {
  Rounding rounding;
  int64_t block = 0;
  bool powers_of_two = true;
  int format_exponent = 0;  // of the format's largest number
  float before = 1;

  // From the bits of the largest magnitude in the block. 0: every element is 0. NaN: something is not finite.
  float block_scale(uint32_t largest_bits) const;
};
BlockRounding block_rounding(const Quantize& call);

}  // namespace dettax
