#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/comm/collective_settings.h"
#include "harness/plan/knobs.h"

namespace dettax::testing_support {

inline constexpr std::array<Order, 3> kOrders{Order::arrival, Order::ordered, Order::invariant};
inline constexpr std::array<Algorithm, kAlgorithms> kAll{Algorithm::direct, Algorithm::ring,
                                                         Algorithm::tree, Algorithm::halving,
                                                         Algorithm::hierarchical};

// Small integers, whose sum in floats is exact in any order.
inline float value_at(int rank, int64_t index) {
  return static_cast<float>((index % 97 + 1) * (rank + 1));
}
inline float sum_at(int ranks, int64_t index) {
  return static_cast<float>((index % 97 + 1) * ranks * (ranks + 1) / 2);
}
inline std::vector<float> integers(int rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = value_at(rank, i);
  return values;
}

}  // namespace dettax::testing_support
