#include <algorithm>
#include <limits>

#include "harness/device/cpu/quantize.h"

namespace dettax {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The largest power of two not above limit / amax.
float power_below(float limit, float amax) {
  if (!std::isfinite(amax)) return kNaN;
  if (amax == 0.0f) return 1.0f;
  const int exponent = std::ilogb(static_cast<double>(limit) / static_cast<double>(amax));
  return std::ldexp(1.0f, std::clamp(exponent, -126, 126));
}

}  // namespace

Rounding rounding_of(NumberFormat format) {
  const FormatInfo& f = info(format);
  Rounding r;
  r.full_range = f.exponent_bits == 8;
  r.mantissa_bits = f.mantissa_bits;
  r.lowest_exponent = f.lowest_exponent;
  r.largest = f.largest;
  r.overflow = f.infinite ? std::numeric_limits<float>::infinity() : f.largest;
  r.nan = round_to(format, kNaN);
  return r;
}

float tensor_scale(NumberFormat format, float amax) {
  return power_below(info(format).largest, amax);
}

float BlockRounding::block_scale(uint32_t largest_bits) const {
  const float amax = std::bit_cast<float>(largest_bits);
  if (!std::isfinite(amax) || std::isnan(before)) return kNaN;
  if (amax == 0.0f) return 0.0f;
  if (powers_of_two) return std::ldexp(1.0f, std::max(std::ilogb(amax) - format_exponent, -126));
  return round_to(NumberFormat::e4m3, amax * before / rounding.largest);
}

BlockRounding block_rounding(const Quantize& call) {
  BlockRounding b;
  b.rounding = rounding_of(call.format);
  b.block = call.block;
  b.powers_of_two = call.scale_format == NumberFormat::e8m0;
  b.format_exponent = std::ilogb(b.rounding.largest);
  if (!b.powers_of_two) {
    b.before = power_below(b.rounding.largest * info(call.scale_format).largest, *call.amax.f32());
  }
  return b;
}

}  // namespace dettax
