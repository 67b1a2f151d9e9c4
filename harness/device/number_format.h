#pragma once

#include <cstdint>

namespace dettax {

// Binary floating-point formats narrower than f32. tf32 has the range of f32 and the mantissa of f16 (NVIDIA); bf16 and f16 are those
// of IEEE 754 and its brain relative; e4m3 (no infinity), e5m2, e2m1 (neither infinity nor NaN) and the scale e8m0 (powers of two)
// are those of the OCP specifications "8-bit Floating Point" 1.0 and "Microscaling Formats" 1.0.
enum class NumberFormat { f32, tf32, bf16, f16, e4m3, e5m2, e2m1, e8m0 };

// exponent_bits and mantissa_bits as stored; a value is 2^(e - bias) * 1.m, subnormal below 2^lowest_exponent.
struct FormatInfo {
  const char* name;
  int bits, exponent_bits, mantissa_bits;
  int lowest_exponent;  // of a normal number
  float largest;        // finite
  bool infinite;  // overflow rounds to infinity; without it it stops at the largest ("saturates")
};
const FormatInfo& info(NumberFormat format);

// To the nearest number of the format, ties to even; NaN stays NaN, but becomes the largest where the format has none. What is beyond
// the largest by half a unit or more becomes infinity, or the largest in e4m3, e5m2 and e2m1, which are used with scales that should
// keep that from happening (CUDA's __NV_SATFINITE). e8m0 is a scale: the magnitude is rounded up to a power of two from 2^-127 to
// 2^127, zero to the least.
float round_to(NumberFormat format, float value);

// The number a code stands for, and the code of a number rounded first. Codes of tf32 are its 19 bits; of f32 its own.
float decode(NumberFormat format, uint32_t code);
uint32_t encode(NumberFormat format, float value);

}  // namespace dettax
