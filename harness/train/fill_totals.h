#pragma once

#include <cstdint>

namespace dettax {

// Buffers that memory_fill filled before use since a trainer was made; the time is the host's in the calls.
struct FillTotals {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t time_ns = 0;
};

}  // namespace dettax
