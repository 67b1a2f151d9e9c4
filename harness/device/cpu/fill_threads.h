#pragma once

#include <cstdint>

namespace dettax {

// Whether handing out equal items leaves less than a quarter of the threads' time unused.
inline bool fill_threads(int64_t items, int64_t threads) {
  const int64_t rounds = (items + threads - 1) / threads;
  return 4 * items >= 3 * threads * rounds;
}

}  // namespace dettax
