#include "harness/base/random.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace dettax {
namespace {

TEST(Random, IsPhiloxAsPublished) {
  // Known answers of Random123 (kat_vectors, philox4x32 10).
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfKeyAndCounterMatters) {
  std::set<std::array<uint32_t, 4>> seen;
  const RandomKey key{1, RandomPurpose::init, 2};
  seen.insert(random_words(key, 0, 0));
  seen.insert(random_words(key, 0, 1));
  seen.insert(random_words(key, 1, 0));
  seen.insert(random_words(key, 0, uint64_t{1} << 32U));
  seen.insert(random_words(key, uint64_t{1} << 32U, 0));
  seen.insert(random_words({1, RandomPurpose::init, 3}, 0, 0));
  seen.insert(random_words({1, RandomPurpose::data, 2}, 0, 0));
  seen.insert(random_words({uint64_t{1} << 32U, RandomPurpose::init, 2}, 0, 0));
  EXPECT_EQ(seen.size(), 8U);
  EXPECT_EQ(random_words(key, 0, 0), random_words(key, 0, 0));
}

TEST(Random, UniformNeverReachesItsEnds) {
  EXPECT_GT(uniform(0), 0.0);
  EXPECT_LT(uniform(0xFFFFFFFF), 1.0);
}

TEST(Random, NormalAgreesWithTheLibraryFunctions) {
  const double two_pi = 2 * std::acos(-1.0);
  for (uint32_t i = 0; i < 20000; ++i) {
    const auto words = random_words({5, RandomPurpose::test, 0}, 0, i);
    const double expected =
        std::sqrt(-2 * std::log(uniform(words[0]))) * std::cos(two_pi * uniform(words[1]));
    EXPECT_NEAR(normal(words[0], words[1]), expected, 1e-14);
  }
  for (const uint32_t word :
       {0U, 0x1FFFFFFFU, 0x20000000U, 0x40000000U, 0x80000000U, 0xFFFFFFFFU}) {
    const double expected =
        std::sqrt(-2 * std::log(uniform(word))) * std::cos(two_pi * uniform(word));
    EXPECT_NEAR(normal(word, word), expected, 1e-13) << word;
  }
}

TEST(Random, NormalHasTheMomentsOfOne) {
  const int n = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const auto words = random_words({9, RandomPurpose::test, 1}, 0, i);
    const double x = normal(words[0], words[1]);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  // Five standard errors each.
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(1.0 / n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0 / n));
}

}  // namespace
}  // namespace dettax
