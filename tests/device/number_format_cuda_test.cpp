// The vendor's own conversions, which its headers offer on the host, are the measure. Without the headers there is nothing to
// compare with, and the test says so.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/device/number_format.h"

#if __has_include(<cuda_fp4.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

namespace dettax {
namespace {

bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Every number of the format, the middle between neighbours and the floats beside the middle.
std::vector<float> telling_values(NumberFormat format) {
  std::vector<float> values{0.0f,
                            -0.0f,
                            1e-45f,
                            -1e-40f,
                            1e30f,
                            -std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  const uint32_t codes = 1U << static_cast<unsigned>(std::min(info(format).bits, 16));
  for (uint32_t code = 0; code + 1 < codes; ++code) {
    const float here = decode(format, code);
    const float next = decode(format, code + 1);
    values.push_back(here);
    if (!std::isfinite(here) || !std::isfinite(next)) continue;
    const float middle = here / 2 + next / 2;
    values.insert(values.end(),
                  {middle, std::nextafterf(middle, here), std::nextafterf(middle, next)});
  }
  return values;
}

// The vendor's own conversions on the host, as codes.
uint32_t cuda_code(NumberFormat format, float value) {
  switch (format) {
    case NumberFormat::bf16: {
      const __nv_bfloat16_raw raw = __float2bfloat16_rn(value);
      return raw.x;
    }
    case NumberFormat::f16: {
      const __half_raw raw = __float2half_rn(value);
      return raw.x;
    }
    case NumberFormat::e4m3:
      return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    case NumberFormat::e5m2:
      return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
    case NumberFormat::e2m1:
      return __nv_cvt_float_to_fp4(value, __NV_E2M1, cudaRoundNearest);
    case NumberFormat::e8m0:
      return __nv_cvt_float_to_e8m0(value, __NV_SATFINITE, cudaRoundPosInf);
    default:
      return 0;
  }
}

float cuda_number(NumberFormat format, uint32_t code) {
  switch (format) {
    case NumberFormat::bf16:
      return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{static_cast<uint16_t>(code)}));
    case NumberFormat::f16:
      return __half2float(__half(__half_raw{static_cast<uint16_t>(code)}));
    case NumberFormat::e4m3:
    case NumberFormat::e5m2: {
      const auto kind = format == NumberFormat::e4m3 ? __NV_E4M3 : __NV_E5M2;
      return __half2float(
          __half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), kind)));
    }
    case NumberFormat::e2m1:
      return __half2float(
          __half(__nv_cvt_fp4_to_halfraw(static_cast<__nv_fp4_storage_t>(code), __NV_E2M1)));
    case NumberFormat::e8m0:
      return __bfloat162float(
          __nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(code))));
    default:
      return 0;
  }
}

TEST(NumberFormat, AgreesWithTheCudaHeadersForEveryCode) {
  for (const NumberFormat format : {NumberFormat::bf16, NumberFormat::f16, NumberFormat::e4m3,
                                    NumberFormat::e5m2, NumberFormat::e2m1, NumberFormat::e8m0}) {
    for (uint32_t code = 0; code < (1U << static_cast<unsigned>(info(format).bits)); ++code) {
      ASSERT_TRUE(same_number(decode(format, code), cuda_number(format, code)))
          << info(format).name << " code " << code;
    }
  }
}

TEST(NumberFormat, RoundsAsTheCudaHeadersDo) {
  for (const NumberFormat format : {NumberFormat::bf16, NumberFormat::f16, NumberFormat::e4m3,
                                    NumberFormat::e5m2, NumberFormat::e2m1, NumberFormat::e8m0}) {
    for (const float value : telling_values(format)) {
      if (format == NumberFormat::e8m0 && (value < 0 || std::signbit(value))) continue;
      const float theirs = cuda_number(format, cuda_code(format, value));
      ASSERT_TRUE(same_number(round_to(format, value), theirs))
          << info(format).name << " of " << value << ": " << round_to(format, value) << ", CUDA "
          << theirs;
    }
  }
}

}  // namespace
}  // namespace dettax
#else
TEST(NumberFormat, AgreesWithTheCudaHeadersForEveryCode) {
  GTEST_SKIP() << "the CUDA headers are not installed";
}
#endif
