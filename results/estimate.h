#pragma once

#include <cstdint>

namespace dettax {

// A value with its interval. `count` is what the interval rests on (rounds).
struct Estimate {
  double value = 0, low = 0, high = 0;
  int64_t count = 0;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

}  // namespace dettax
