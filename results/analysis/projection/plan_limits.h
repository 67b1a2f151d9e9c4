#pragma once

#include <cstdint>

namespace dettax {

// A step may be no larger than this: sizes are multiplied in 64 bits, and every pass of every micro-batch is simulated.
inline constexpr int64_t kMostRanks = 1'000'000;
inline constexpr int64_t kMostMicroBatch = 1'000'000;
inline constexpr int64_t kMostGlobalBatch = 1'000'000'000;
inline constexpr int64_t kMostSequence = 100'000'000;
inline constexpr int64_t kMostPasses = 1'000'000;  // forward and backward, of one replica

}  // namespace dettax
