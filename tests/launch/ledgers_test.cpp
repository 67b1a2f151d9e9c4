#include "harness/launch/ledgers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dettax {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels(const std::vector<Variant>& variants) {
  std::vector<std::string> out;
  for (const Variant& variant : variants) out.push_back(variant.label);
  return out;
}

Case planned(int dp, int64_t micro, int64_t global, int threads = 2) {
  Case out;
  out.layout.dp = dp;
  out.batch = {micro, global, 32};
  out.topology.threads_per_rank = threads;
  return out;
}

TEST(Variants, OtherThreadsAreNeverTheSame) {
  EXPECT_THAT(labels(thread_variants(planned(1, 2, 4, 2))), ElementsAre("threads 1", "threads 3"));
  EXPECT_THAT(labels(thread_variants(planned(1, 2, 4, 1))), ElementsAre("threads 3"));
}

TEST(Variants, MicroBatchIsHalvedAndRanksAreDoubled) {
  EXPECT_THAT(labels(rank_variants(planned(1, 4, 8))),
              ElementsAre("dp 1, micro-batch 2", "dp 2, micro-batch 4"));
}

TEST(Variants, MoreRanksTakeSmallerMicroBatchesIfNeedBe) {
  EXPECT_THAT(labels(rank_variants(planned(1, 4, 4))),
              ElementsAre("dp 1, micro-batch 2", "dp 2, micro-batch 2"));
}

TEST(Variants, FewerRanksWhereMoreDoNotFit) {
  EXPECT_THAT(labels(rank_variants(planned(2, 1, 2))), ElementsAre("dp 1, micro-batch 1"));
}

TEST(Variants, ABatchOfOneHasNone) { EXPECT_TRUE(rank_variants(planned(1, 1, 1)).empty()); }

}  // namespace
}  // namespace dettax
