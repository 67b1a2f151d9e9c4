#include <bit>
#include <limits>

#include "harness/device/number_format.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Numbers of every magnitude a format can tell apart, and of some it cannot.
Floats wide_values(int64_t count) {
  Floats values = random_floats(count, 7);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i % 60) - 40);
  }
  return values;
}

void expect_same_numbers(const Floats& a, const Floats& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

TEST(Quantize, WithoutAScaleRoundsAsTheFormatIsDefined) {
  OpsOn on(2);
  Floats x = wide_values(40'003);
  x[5] = kInfinity;
  x[6] = -kInfinity;
  x[7] = kNaN;
  x[8] = -0.0f;
  x[9] = std::numeric_limits<float>::max();
  for (const NumberFormat format : {NumberFormat::tf32, NumberFormat::bf16, NumberFormat::f16,
                                    NumberFormat::e4m3, NumberFormat::e5m2, NumberFormat::e2m1}) {
    Floats y(x.size());
    on->quantize({.y = tensor(y), .x = tensor(x), .format = format});
    Floats expected(x.size());
    for (size_t i = 0; i < x.size(); ++i) expected[i] = round_to(format, x[i]);
    expect_same_numbers(y, expected, info(format).name);
  }
}

TEST(Quantize, TheLargestMagnitudeIsFoundWhereverItIs) {
  OpsOn on(2);
  for (const size_t at : {size_t{0}, size_t{17}, size_t{39'999}}) {
    Floats x = random_floats(40'000, 3);
    x[at] = -77;
    Floats result(1);
    on->absolute_maximum({tensor(result), tensor(x)});
    EXPECT_EQ(result[0], 77.0f);
    x[100] = kNaN;
    on->absolute_maximum({tensor(result), tensor(x)});
    EXPECT_TRUE(std::isnan(result[0]));
  }
}

TEST(Quantize, ATensorScaleUsesTheWholeRangeAndIsUndoneExactly) {
  OpsOn on(2);
  Floats x = random_floats(1000, 4);
  for (float& v : x) v *= 1e-6f;
  Floats amax(1);
  Floats y(x.size());
  on->absolute_maximum({tensor(amax), tensor(x)});
  on->quantize({.y = tensor(y),
                .x = tensor(x),
                .format = NumberFormat::e4m3,
                .group = ScaleGroup::tensor,
                .amax = tensor(amax)});
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], x[i], std::fabs(x[i]) / 16 + amax[0] * 0x1p-17f) << i;
  }
  // Without the scale everything would be below the least number of the format.
  on->quantize({.y = tensor(y), .x = tensor(x), .format = NumberFormat::e4m3});
  EXPECT_EQ(*std::max_element(y.begin(), y.end()), 0.0f);
}

// OCP MX 1.0, section 6.3: the shared exponent is that of the largest magnitude less that of the format.
Floats mx_reference(const Floats& x, size_t columns, size_t block, NumberFormat format) {
  Floats y(x.size());
  const int format_exponent = std::ilogb(info(format).largest);
  for (size_t row = 0; row < x.size(); row += columns) {
    for (size_t at = 0; at < columns; at += block) {
      const size_t end = std::min(columns, at + block);
      float amax = 0;
      for (size_t i = at; i < end; ++i) amax = std::max(amax, std::fabs(x[row + i]));
      const double scale = amax == 0 ? 1 : std::ldexp(1.0, std::ilogb(amax) - format_exponent);
      for (size_t i = at; i < end; ++i) {
        const auto scaled = static_cast<float>(static_cast<double>(x[row + i]) / scale);
        y[row + i] = static_cast<float>(static_cast<double>(round_to(format, scaled)) * scale);
      }
    }
  }
  return y;
}

Floats transposed(const Floats& x, size_t rows, size_t columns) {
  Floats t(x.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) t[c * rows + r] = x[r * columns + c];
  return t;
}

TEST(Quantize, BlocksAlongRowsFollowTheMxSpecification) {
  OpsOn on(2);
  constexpr int64_t kRows = 7;
  constexpr int64_t kColumns = 75;  // the last block is short
  Floats x = random_floats(kRows * kColumns, 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 20) - 10);
  std::fill_n(x.begin() + 75, 32, 0.0f);
  for (const NumberFormat format : {NumberFormat::e4m3, NumberFormat::e2m1}) {
    Floats y(x.size());
    on->quantize({.y = tensor(y, {kRows, kColumns}),
                  .x = tensor(x, {kRows, kColumns}),
                  .format = format,
                  .group = ScaleGroup::along_rows,
                  .block = 32});
    expect_same_numbers(y, mx_reference(x, kColumns, 32, format), info(format).name);
  }
}

TEST(Quantize, BlocksAlongColumnsAreThoseAlongTheRowsOfTheTransposedMatrix) {
  OpsOn on(2);
  constexpr int64_t kRows = 70;
  constexpr int64_t kColumns = 37;
  Floats x = wide_values(kRows * kColumns);
  Floats y(x.size());
  on->quantize({.y = tensor(y, {kRows, kColumns}),
                .x = tensor(x, {kRows, kColumns}),
                .format = NumberFormat::e4m3,
                .group = ScaleGroup::along_columns,
                .block = 32});
  const Floats expected =
      mx_reference(transposed(x, kRows, kColumns), kRows, 32, NumberFormat::e4m3);
  expect_same_numbers(y, transposed(expected, kColumns, kRows), "columns");
}

TEST(Quantize, Nvfp4BlocksStayCloseAndDifferFromOneScaleForAll) {
  OpsOn on(2);
  Floats x = random_floats(64 * 16, 6);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], -static_cast<int>(i / 16 % 8));
  Floats amax(1);
  Floats y(x.size());
  on->absolute_maximum({tensor(amax), tensor(x)});
  on->quantize({.y = tensor(y, {64, 16}),
                .x = tensor(x, {64, 16}),
                .format = NumberFormat::e2m1,
                .group = ScaleGroup::along_rows,
                .block = 16,
                .scale_format = NumberFormat::e4m3,
                .amax = tensor(amax)});
  for (size_t row = 0; row < 64; ++row) {
    float largest = 0;
    for (size_t i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(x[row * 16 + i]));
    for (size_t i = 0; i < 16; ++i) {
      // Half the widest gap of e2m1 (4 to 6) in units of the block, and the rounding of its scale.
      EXPECT_NEAR(y[row * 16 + i], x[row * 16 + i], largest * (1.0f / 6 + 1.0f / 16));
      EXPECT_TRUE(std::isfinite(y[row * 16 + i]));
    }
    EXPECT_GT(*std::max_element(y.begin() + static_cast<std::ptrdiff_t>(row * 16),
                                y.begin() + static_cast<std::ptrdiff_t>(row * 16 + 16)),
              0.0f);
  }
}

TEST(Quantize, WhatIsNotFiniteMakesItsGroupNaN) {
  OpsOn on(1);
  Floats x = random_floats(64, 8);
  x[40] = kInfinity;
  Floats y(x.size());
  on->quantize({.y = tensor(y, {1, 64}),
                .x = tensor(x, {1, 64}),
                .format = NumberFormat::e4m3,
                .group = ScaleGroup::along_rows,
                .block = 32});
  EXPECT_TRUE(std::isfinite(y[31]));
  EXPECT_TRUE(std::isnan(y[32]));
  Floats amax(1);
  on->absolute_maximum({tensor(amax), tensor(x)});
  on->quantize({.y = tensor(y),
                .x = tensor(x),
                .format = NumberFormat::e4m3,
                .group = ScaleGroup::tensor,
                .amax = tensor(amax)});
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(Quantize, ThreadsMakeNoDifference) {
  Floats x = wide_values(300 * 64);
  const auto quantized = [&](int threads) {
    OpsOn on(threads);
    Floats y(x.size());
    on->quantize({.y = tensor(y, {300, 64}),
                  .x = tensor(x, {300, 64}),
                  .format = NumberFormat::e4m3,
                  .group = ScaleGroup::along_columns,
                  .block = 32});
    return y;
  };
  const Floats one = quantized(1);
  EXPECT_EQ(one, quantized(3));
  x[17] += 1;
  EXPECT_NE(one, quantized(3));
}

}  // namespace
}  // namespace dettax::test
