#include "profiles/import/decimal.h"

#include <charconv>
#include <limits>

namespace dettax {
namespace {

constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();

struct Digits {
  uint64_t value = 0;
  int exponent = 0;  // the number is value * 10^exponent
};

// Digits after the first 18 significant ones only count as places: they are under a nanosecond in any stamp of this age.
std::optional<Digits> digits_of(std::string_view text) {
  Digits digits;
  bool any = false, point = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (digits.value < kMax / 10) {
      digits.value = digits.value * 10 + static_cast<uint64_t>(c - '0');
      digits.exponent -= point ? 1 : 0;
    } else {
      digits.exponent += point ? 0 : 1;
    }
  }
  if (!any) return std::nullopt;
  if (at == text.size()) return digits;
  if ((text[at] | 0x20) != 'e') return std::nullopt;
  ++at;
  if (at < text.size() && text[at] == '+') ++at;
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), exponent);
  if (error != std::errc() || end != text.data() + text.size() || exponent > 100 || exponent < -100)
    return std::nullopt;
  digits.exponent += exponent;
  return digits;
}

}  // namespace

std::optional<int64_t> scaled_integer(std::string_view number, int shift) {
  const bool negative = !number.empty() && number.front() == '-';
  auto digits = digits_of(negative ? number.substr(1) : number);
  if (!digits) return std::nullopt;
  uint64_t value = digits->value;
  int exponent = digits->exponent + shift;
  for (; exponent > 0 && value != 0; --exponent) {
    if (value > kMax / 10) return std::nullopt;
    value *= 10;
  }
  for (; exponent < -1 && value != 0; ++exponent) value /= 10;
  if (exponent == -1) value = (value + 5) / 10;
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

}  // namespace dettax
