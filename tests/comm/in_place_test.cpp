#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/comm/communicator.h"

namespace dettax {
namespace {

constexpr Algorithm kEvery[] = {Algorithm::direct, Algorithm::ring, Algorithm::tree,
                                Algorithm::halving, Algorithm::hierarchical};

// Whole numbers, whose sums are exact in any order.
float element(int rank, int64_t i) { return static_cast<float>((rank + 1) * (i % 97) + rank); }

TEST(ReduceScatter, MayWriteItsPartWhereItsInputLies) {
  constexpr int64_t kCount = 1500;
  for (const Algorithm algorithm : kEvery) {
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      for (const int ranks : {2, 3, 4}) {
        CollectiveSettings settings;
        settings.algorithm = algorithm;
        run_ranks(ranks, false, settings, [&](Communicator& group) {
          std::vector<float> values;
          for (int64_t i = 0; i < kCount * ranks; ++i) values.push_back(element(group.rank(), i));
          float* own = values.data() + group.rank() * kCount;
          group.reduce_scatter(values.data(), own, kCount, order);
          for (int64_t i = 0; i < kCount; ++i) {
            float expected = 0;
            for (int r = 0; r < ranks; ++r) expected += element(r, group.rank() * kCount + i);
            ASSERT_EQ(own[i], expected) << i;
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace dettax
