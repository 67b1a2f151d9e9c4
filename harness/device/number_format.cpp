#include "harness/device/number_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dettax {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr std::array<FormatInfo, 8> kFormats{{
    {"f32", 32, 8, 23, -126, kLargest, true},
    {"tf32", 19, 8, 10, -126, 0x1.FFCp127f, true},
    {"bf16", 16, 8, 7, -126, 0x1.FEp127f, true},
    {"f16", 16, 5, 10, -14, 65504.0f, true},
    {"e4m3", 8, 4, 3, -6, 448.0f, false},
    {"e5m2", 8, 5, 2, -14, 57344.0f, false},
    {"e2m1", 4, 2, 1, 0, 6.0f, false},
    {"e8m0", 8, 8, 0, -127, 0x1p127f, false},
}};

float round_scale_up(float value) {
  if (std::isnan(value)) return value;
  int exponent = 0;
  const float mantissa = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
  if (mantissa == 0.0f) return 0x1p-127f;
  if (std::isinf(value)) return 0x1p127f;
  const int power = mantissa == 0.5f ? exponent - 1 : exponent;
  return std::ldexp(1.0f, std::clamp(power, -127, 127));
}

uint32_t nan_code(NumberFormat format) {
  switch (format) {
    case NumberFormat::f32:
      return 0x7FFFFFFFU;
    case NumberFormat::tf32:
      return 0x3FFFFU;
    case NumberFormat::bf16:
    case NumberFormat::f16:
      return 0x7FFFU;
    case NumberFormat::e4m3:
    case NumberFormat::e5m2:
      return 0x7FU;
    case NumberFormat::e2m1:
      return 0x7U;
    case NumberFormat::e8m0:
      return 0xFFU;
  }
  return 0;
}

bool is_special(NumberFormat format, uint32_t exponent_field, uint32_t mantissa) {
  const FormatInfo& f = info(format);
  const uint32_t all_ones = (1U << static_cast<unsigned>(f.exponent_bits)) - 1;
  if (exponent_field != all_ones || format == NumberFormat::e2m1) return false;
  return format != NumberFormat::e4m3 || mantissa == 7;
}

}  // namespace

const FormatInfo& info(NumberFormat format) { return kFormats[static_cast<size_t>(format)]; }

float round_to(NumberFormat format, float value) {
  if (format == NumberFormat::f32) return value;
  if (format == NumberFormat::e8m0) return round_scale_up(value);
  const FormatInfo& f = info(format);
  if (std::isnan(value)) return format == NumberFormat::e2m1 ? f.largest : kNaN;
  if (std::isinf(value)) return f.infinite ? value : std::copysign(f.largest, value);
  if (value == 0.0f) return value;
  // In double every step but the rounding itself is exact.
  const double magnitude = std::fabs(static_cast<double>(value));
  const int exponent = std::max(std::ilogb(magnitude), f.lowest_exponent);
  const double unit = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double rounded = std::nearbyint(magnitude / unit) * unit;
  const double limited = rounded <= static_cast<double>(f.largest)
                             ? rounded
                             : static_cast<double>(f.infinite ? kInfinity : f.largest);
  return std::copysign(static_cast<float>(limited), value);
}

float decode(NumberFormat format, uint32_t code) {
  if (format == NumberFormat::f32) return std::bit_cast<float>(code);
  if (format == NumberFormat::e8m0) {
    return code == 0xFFU ? kNaN : std::ldexp(1.0f, static_cast<int>(code) - 127);
  }
  const FormatInfo& f = info(format);
  const auto mantissa_bits = static_cast<unsigned>(f.mantissa_bits);
  const uint32_t mantissa = code & ((1U << mantissa_bits) - 1);
  const uint32_t field =
      (code >> mantissa_bits) & ((1U << static_cast<unsigned>(f.exponent_bits)) - 1);
  const bool negative = ((code >> static_cast<unsigned>(f.bits - 1)) & 1U) != 0;
  float magnitude = 0;
  if (is_special(format, field, mantissa)) {
    magnitude = mantissa == 0 && format != NumberFormat::e4m3 ? kInfinity : kNaN;
  } else if (field == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), f.lowest_exponent - f.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | (1U << mantissa_bits)),
                           static_cast<int>(field) - 1 + f.lowest_exponent - f.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

uint32_t encode(NumberFormat format, float value) {
  if (format == NumberFormat::f32) return std::bit_cast<uint32_t>(value);
  const float rounded = round_to(format, value);
  if (std::isnan(rounded)) return nan_code(format);
  const FormatInfo& f = info(format);
  if (format == NumberFormat::e8m0) return static_cast<uint32_t>(std::ilogb(rounded) + 127);
  const uint32_t sign = std::signbit(rounded) ? 1U << static_cast<unsigned>(f.bits - 1) : 0U;
  const float magnitude = std::fabs(rounded);
  const auto mantissa_bits = static_cast<unsigned>(f.mantissa_bits);
  if (std::isinf(magnitude)) {
    return sign | (((1U << static_cast<unsigned>(f.exponent_bits)) - 1) << mantissa_bits);
  }
  if (magnitude == 0.0f) return sign;
  const int exponent = std::max(std::ilogb(magnitude), f.lowest_exponent);
  const auto steps = static_cast<uint32_t>(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // `steps` has the hidden bit where the number is normal; adding it to the field below lifts the exponent by one.
  return sign | ((static_cast<uint32_t>(exponent - f.lowest_exponent) << mantissa_bits) + steps);
}

}  // namespace dettax
