#include "harness/base/random.h"

#include <cmath>

#include <Random123/philox.h>

namespace dettax {
namespace {

// Natural logarithm of x in (0, 1), by x = m * 2^e with m in [sqrt(1/2), sqrt(2)) and
// log m = 2 atanh((m - 1) / (m + 1)). |s| < 0.172, so 11 odd terms reach double precision.
double portable_log(double x) {
  constexpr double kLog2 = 0.69314718055994530942;
  constexpr double kSqrtHalf = 0.70710678118654752440;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kSqrtHalf) {
    m *= 2;
    exponent -= 1;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int k = 10; k >= 0; --k) series = series * s2 + 1.0 / (2 * k + 1);
  return exponent * kLog2 + 2 * s * series;
}

// cos(x) and sin(x) for x in [0, pi/4] by their Taylor series.
double small_cos(double x) {
  const double x2 = x * x;
  double series = 1;
  for (int k = 10; k >= 1; --k) series = 1 - series * x2 / ((2 * k - 1) * (2 * k));
  return series;
}
double small_sin(double x) {
  const double x2 = x * x;
  double series = 1;
  for (int k = 10; k >= 1; --k) series = 1 - series * x2 / ((2 * k) * (2 * k + 1));
  return x * series;
}

// cos(2 pi u) for u in (0, 1), folded to an eighth of the circle.
double cos_of_turns(double u) {
  constexpr double kTwoPi = 6.28318530717958647693;
  if (u > 0.5) u = 1 - u;
  const double sign = u > 0.25 ? -1 : 1;
  if (u > 0.25) u = 0.5 - u;
  return sign * (u > 0.125 ? small_sin(kTwoPi * (0.25 - u)) : small_cos(kTwoPi * u));
}

uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value & 0xFFFFFFFFU); }
uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32U); }

}  // namespace

std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter,
                               const std::array<uint32_t, 2>& key) {
  const r123::Philox4x32_R<10> generator;
  const r123::Philox4x32::ctr_type c = {{counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::key_type k = {{key[0], key[1]}};
  const auto words = generator(c, k);
  return {words[0], words[1], words[2], words[3]};
}

std::array<uint32_t, 2> philox_key(const RandomKey& key) {
  const auto words = philox({static_cast<uint32_t>(key.purpose), key.stream, 0, 0},
                            {low_half(key.seed), high_half(key.seed)});
  return {words[0], words[1]};
}

std::array<uint32_t, 4> random_words(const RandomKey& key, uint64_t high, uint64_t low) {
  return philox({low_half(low), high_half(low), low_half(high), high_half(high)}, philox_key(key));
}

double uniform(uint32_t word) { return (word + 0.5) * 0x1p-32; }

double normal(uint32_t word0, uint32_t word1) {
  return std::sqrt(-2 * portable_log(uniform(word0))) * cos_of_turns(uniform(word1));
}

}  // namespace dettax
