#include "results/analysis/acceptance/peers.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/random.h"

namespace dettax {
namespace {

std::vector<PeerValue> normals(size_t count, uint64_t seed) {
  std::vector<PeerValue> values;
  for (uint64_t i = 0; i < count; ++i) {
    const auto words = random_words({seed, RandomPurpose::test, 3}, 0, i);
    values.push_back({normal(words[0], words[1]), 0});
  }
  return values;
}

bool any_odd(const PeerComparison& found) {
  for (size_t i = 0; i < found.deviation.size(); ++i) {
    if (found.odd(i)) return true;
  }
  return false;
}

TEST(Peers, TheScaleOfNormalValuesIsTheirDeviation) {
  for (const size_t n : {4U, 9U, 30U, 301U}) {
    double sum = 0;
    constexpr int kSets = 200;
    for (uint64_t set = 0; set < kSets; ++set) {
      std::vector<double> values;
      for (const PeerValue& one : normals(n, set)) values.push_back(one.value);
      sum += robust_scale(values);
    }
    EXPECT_NEAR(sum / kSets, 1, 0.12) << n;
  }
}

TEST(Peers, NormalSetsAreAccusedNoOftenerThanAllowed) {
  constexpr int kSets = 1500;
  constexpr double kAllowed = 0.05;
  for (const size_t n : {4U, 5U, 8U, 16U, 64U}) {
    int accused = 0;
    for (uint64_t set = 0; set < kSets; ++set)
      accused += any_odd(compare_with_peers(normals(n, set), kAllowed)) ? 1 : 0;
    // four standard deviations of the count at the allowed rate
    EXPECT_LE(accused, kAllowed * kSets + 4 * std::sqrt(kAllowed * kSets)) << n;
  }
}

TEST(Peers, StrangersDoNotHideEachOther) {
  std::vector<PeerValue> values = normals(16, 1);
  for (size_t i = 0; i < 5; ++i) values[i].value += 40;
  const PeerComparison found = compare_with_peers(values, 0.01);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found.odd(i), i < 5) << i;
}

TEST(Peers, AValueMeasuredWorseHasAWiderCut) {
  std::vector<PeerValue> values = normals(16, 1);
  for (PeerValue& one : values) one.standard_error = 0.5;
  values[0].standard_error = 50;
  const PeerComparison found = compare_with_peers(values, 0.01);
  EXPECT_GT(found.cut[0], 10 * found.cut[1]);
}

TEST(Peers, TooFewAreRefused) { EXPECT_THROW(compare_with_peers(normals(3, 1), 0.01), Error); }

}  // namespace
}  // namespace dettax
