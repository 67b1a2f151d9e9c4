#include "harness/device/number_format.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace dettax {
namespace {

bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

const std::vector<NumberFormat> kNarrow{NumberFormat::tf32, NumberFormat::bf16, NumberFormat::f16,
                                        NumberFormat::e4m3, NumberFormat::e5m2, NumberFormat::e2m1};

TEST(NumberFormat, EveryCodeIsTheCodeOfItsNumber) {
  for (const NumberFormat format : kNarrow) {
    const uint32_t codes = 1U << static_cast<unsigned>(info(format).bits);
    for (uint32_t code = 0; code < codes; ++code) {
      const float value = decode(format, code);
      if (std::isnan(value) || (std::isinf(value) && !info(format).infinite)) continue;
      ASSERT_EQ(encode(format, value), code) << info(format).name;
      ASSERT_TRUE(same_number(round_to(format, value), value)) << info(format).name << " " << code;
    }
  }
}

TEST(NumberFormat, RoundsToTheNearestWithTiesToEven) {
  for (const NumberFormat format : kNarrow) {
    for (uint32_t code = 0; code + 1 < (1U << static_cast<unsigned>(info(format).bits - 1));
         ++code) {
      const float low = decode(format, code);
      const float high = decode(format, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
      if (static_cast<double>(static_cast<float>(middle)) != middle)
        continue;  // below the least f32
      const auto tie = static_cast<float>(middle);
      const float even = code % 2 == 0 ? low : high;
      ASSERT_EQ(round_to(format, tie), even) << info(format).name << " " << code;
      ASSERT_EQ(round_to(format, -tie), -even);
      ASSERT_EQ(round_to(format, std::nextafterf(tie, low)), low);
      ASSERT_EQ(round_to(format, std::nextafterf(tie, high)), high);
    }
  }
}

TEST(NumberFormat, ScalesAreRoundedUpToPowersOfTwo) {
  EXPECT_EQ(round_to(NumberFormat::e8m0, 1.0f), 1.0f);
  EXPECT_EQ(round_to(NumberFormat::e8m0, 1.1f), 2.0f);
  EXPECT_EQ(round_to(NumberFormat::e8m0, 0.0f), 0x1p-127f);
  EXPECT_EQ(round_to(NumberFormat::e8m0, std::numeric_limits<float>::max()), 0x1p127f);
  for (uint32_t code = 0; code < 255; ++code) {
    ASSERT_EQ(encode(NumberFormat::e8m0, decode(NumberFormat::e8m0, code)), code);
  }
}

TEST(NumberFormat, OverflowStopsAtTheLargestWhereThereIsNoInfinity) {
  EXPECT_EQ(round_to(NumberFormat::e4m3, 1e6f), 448.0f);
  EXPECT_EQ(round_to(NumberFormat::e5m2, -1e6f), -57344.0f);
  EXPECT_EQ(round_to(NumberFormat::e2m1, 7.0f), 6.0f);
  EXPECT_EQ(round_to(NumberFormat::f16, 65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to(NumberFormat::f16, 65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(round_to(NumberFormat::bf16, std::numeric_limits<float>::max())));
}

}  // namespace
}  // namespace dettax
