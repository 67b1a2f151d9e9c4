// Rotary position embedding, in place. The table of angles depends on shapes alone and is made anew
// for each call from products of few sines and cosines in double precision, which costs less than
// the rotation: e^(i f (64 a + b)) = e^(i f 64 a) e^(i f b).

#include <cmath>
#include <complex>
#include <vector>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/rope.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// Rotates `heads` heads of 2 * half numbers by the angles whose cosines and sines are given.
void rotate_heads(float* at, int64_t heads, size_t half, const float* cosines, const float* sines,
                  float direction) {
  const Lanes sign = set(direction);
  for (int64_t h = 0; h < heads; ++h) {
    float* first = at + static_cast<size_t>(h) * 2 * half;
    float* second = first + half;
    for_each_lanes(half, [&](auto access, size_t i) {
      const Lanes c = access.read(cosines + i);
      const Lanes s = mul(access.read(sines + i), sign);
      const Lanes a = access.read(first + i);
      const Lanes b = access.read(second + i);
      access.write(neg_mul_add(b, s, mul(a, c)), first + i);
      access.write(mul_add(a, s, mul(b, c)), second + i);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(rotate_heads);

constexpr int64_t kTableStep = 64;

struct AngleTable {
  float* cosines;  // [tokens, half]
  float* sines;
};

// The columns [begin, end) of the table, for all rows of a sample.
void fill_angles(const AngleTable& table, const TokenPlaces& places, int64_t tokens, int64_t half,
                 double theta, int64_t begin, int64_t end) {
  std::vector<std::complex<double>> low(kTableStep);
  for (int64_t i = begin; i < end; ++i) {
    const double frequency =
        std::pow(theta, -static_cast<double>(2 * i) / static_cast<double>(2 * half));
    for (int64_t t = 0; t < kTableStep; ++t) {
      low[static_cast<size_t>(t)] = std::polar(1.0, frequency * static_cast<double>(t));
    }
    std::complex<double> high;
    int64_t block = -1;
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t position = places.position(t, tokens);
      if (const int64_t its = position / kTableStep; its != block) {
        block = its;
        high = std::polar(1.0, frequency * static_cast<double>(block * kTableStep));
      }
      const std::complex<double> b = low[static_cast<size_t>(position % kTableStep)];
      const double cosine = high.real() * b.real() - high.imag() * b.imag();
      const double sine = high.real() * b.imag() + high.imag() * b.real();
      table.cosines[t * half + i] = static_cast<float>(cosine);
      table.sines[t * half + i] = static_cast<float>(sine);
    }
  }
}

}  // namespace

void CpuOps::rope(const Rope& call) {
  const int64_t rows = call.qkv.rows();
  const int64_t all_heads = call.heads + 2 * call.key_value_heads;
  const int64_t stride = call.qkv.columns();
  const int64_t half = stride / all_heads / 2;
  require(stride == 2 * half * all_heads && call.samples > 0 && rows % call.samples == 0, "rope");
  const int64_t tokens = rows / call.samples;
  float* qkv = call.qkv.f32();
  float* memory = scratch_.floats(static_cast<size_t>(2 * tokens * half));
  const AngleTable table{memory, memory + tokens * half};
  team_.parallel_for(half, 1, false, [&](int64_t begin, int64_t end, int) {
    fill_angles(table, call.places, tokens, half, call.theta, begin, end);
  });
  const auto kernel = HWY_DYNAMIC_DISPATCH(rotate_heads);
  const int64_t rotated = call.heads + call.key_value_heads;
  const float direction = call.backward ? -1.0f : 1.0f;
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = r % tokens * half;
      kernel(qkv + r * stride, rotated, static_cast<size_t>(half), table.cosines + row,
             table.sines + row, direction);
    }
  });
}

}  // namespace dettax
#endif
