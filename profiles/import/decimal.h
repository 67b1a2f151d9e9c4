#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dettax {

// A decimal number times 10^shift, rounded to the nearest integer (halves away from zero), without passing through a double: stamps
// since the epoch have more digits than a double holds. Nothing if it is no number or does not fit.
std::optional<int64_t> scaled_integer(std::string_view number, int shift);

// Microseconds, as Chrome's format has them.
inline std::optional<int64_t> nanoseconds_of(std::string_view microseconds) {
  return scaled_integer(microseconds, 3);
}

inline std::optional<int64_t> integer_of(std::string_view number) {
  return scaled_integer(number, 0);
}

}  // namespace dettax
