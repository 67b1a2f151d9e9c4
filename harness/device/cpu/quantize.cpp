// Rounding to narrow formats, with scales for whole tensors or blocks. The numbers stay f32: what a narrow multiplication would see.
// Every group is on its own and a maximum has no order, so that threads make no difference.

#include "harness/device/cpu/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/quantize.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

using BitsTag = hn::RebindToUnsigned<FloatTag>;

// Formats with the exponents of f32: half of what is cut off is added, a little less where the last bit kept is even.
HWY_INLINE FloatVector round_mantissa(FloatVector v, const Rounding& r) {
  const FloatTag d;
  const BitsTag du;
  const auto bits = hn::BitCast(du, v);
  const int cut = 23 - r.mantissa_bits;
  const auto last = hn::And(hn::ShiftRightSame(bits, cut), hn::Set(du, 1u));
  const auto half = hn::Set(du, (1u << (static_cast<unsigned>(cut) - 1)) - 1);
  const auto mask = hn::Set(du, ~((1u << static_cast<unsigned>(cut)) - 1));
  return hn::BitCast(d, hn::And(hn::Add(hn::Add(bits, half), last), mask));
}

// Formats with a smaller range: adding and taking away a number whose last bit is the unit wanted rounds to it.
HWY_INLINE FloatVector round_small(FloatVector v, const Rounding& r) {
  const FloatTag d;
  const BitsTag du;
  const auto magnitude = hn::Min(hn::Abs(v), hn::Set(d, 2 * r.largest));
  const auto exponent = hn::Max(hn::ShiftRight<23>(hn::BitCast(du, magnitude)),
                                hn::Set(du, static_cast<uint32_t>(r.lowest_exponent + 127)));
  const auto unit = hn::Add(exponent, hn::Set(du, static_cast<uint32_t>(23 - r.mantissa_bits)));
  const auto magic = hn::BitCast(d, hn::Or(hn::ShiftLeft<23>(unit), hn::Set(du, 0x400000u)));
  const auto rounded = hn::Sub(hn::Add(magnitude, magic), magic);
  const auto limited =
      hn::IfThenElse(hn::Gt(rounded, hn::Set(d, r.largest)), hn::Set(d, r.overflow), rounded);
  return hn::CopySign(limited, v);
}

HWY_INLINE Lanes round_lanes(const Lanes& v, const Rounding& r) {
  const FloatTag d;
  const auto nan = hn::Set(d, r.nan);
  return each_part([&](size_t p) {
    const auto x = v.part[p];
    const auto rounded = r.full_range ? round_mantissa(x, r) : round_small(x, r);
    return hn::IfThenElse(hn::IsNaN(x), nan, rounded);
  });
}

// The magnitude's bits: as integers they are in the order of the numbers, infinity and then NaN behind all.
HWY_INLINE uint32_t largest_bits(const Lanes& v) {
  const BitsTag du;
  const auto magnitude = hn::Set(du, 0x7FFFFFFFu);
  auto most = hn::And(hn::BitCast(du, v.part[0]), magnitude);
  for (size_t p = 1; p < kParts; ++p)
    most = hn::Max(most, hn::And(hn::BitCast(du, v.part[p]), magnitude));
  return hn::GetLane(hn::MaxOfLanes(du, most));
}

uint32_t largest_magnitude_bits(const float* x, size_t count) {
  uint32_t most = 0;
  for_each_lanes(count, [&](auto access, size_t i) {
    most = std::max(most, largest_bits(access.read(x + i)));
  });
  return most;
}

void round_range(float* y, const float* x, size_t count, const Rounding& r, float scale) {
  const Lanes up = set(scale);
  const Lanes down = set(1 / scale);
  for_each_lanes(count, [&](auto access, size_t i) {
    access.write(mul(round_lanes(mul(access.read(x + i), up), r), down), y + i);
  });
}

// One block: scaled down, rounded, scaled up again.
struct Scales {
  Lanes before, block, after;
};
HWY_INLINE Lanes round_scaled(const Lanes& v, const Rounding& r, const Scales& s) {
  const Lanes narrow =
      each_part([&](size_t p) { return hn::Div(mul(v, s.before).part[p], s.block.part[p]); });
  return mul(mul(round_lanes(narrow, r), s.block), s.after);
}

void round_row(float* y, const float* x, size_t columns, const BlockRounding& b) {
  const auto block = static_cast<size_t>(b.block);
  for (size_t at = 0; at < columns; at += block) {
    const size_t count = std::min(block, columns - at);
    const float scale = b.block_scale(largest_magnitude_bits(x + at, count));
    const Scales s{set(b.before), set(scale), set(1 / b.before)};
    for_each_lanes(count, [&](auto access, size_t i) {
      const Lanes v = access.read(x + at + i);
      access.write(scale == 0 ? set(0.0f) : round_scaled(v, b.rounding, s), y + at + i);
    });
  }
}

// `rows` rows of one block, each of `columns` elements: every column has its own scale.
void round_column_block(float* y, const float* x, size_t rows, size_t columns,
                        const BlockRounding& b) {
  for_each_lanes(columns, [&](auto access, size_t c) {
    uint32_t most[kLanes] = {};
    float values[kLanes];
    for (size_t r = 0; r < rows; ++r) {
      store(access.read(x + r * columns + c), values);
      for (size_t j = 0; j < kLanes; ++j) most[j] = std::max(most[j], magnitude_bits(values[j]));
    }
    float scale[kLanes];
    for (size_t j = 0; j < kLanes; ++j) {
      const float own = b.block_scale(most[j]);
      scale[j] = own == 0 ? 1.0f : own;  // a column of zeros stays so
    }
    const Scales s{set(b.before), load(scale), set(1 / b.before)};
    for (size_t r = 0; r < rows; ++r) {
      const size_t at = r * columns + c;
      access.write(round_scaled(access.read(x + at), b.rounding, s), y + at);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(largest_magnitude_bits);
HWY_EXPORT(round_range);
HWY_EXPORT(round_row);
HWY_EXPORT(round_column_block);

constexpr int64_t kGrain = 16384;  // elements

void round_blocks(Team& team, const Quantize& call) {
  const BlockRounding b = block_rounding(call);
  const int64_t rows = call.x.rows();
  const int64_t columns = call.x.columns();
  const bool along_rows = call.group == ScaleGroup::along_rows;
  const int64_t height = along_rows ? 1 : call.block;
  const auto row = HWY_DYNAMIC_DISPATCH(round_row);
  const auto column_block = HWY_DYNAMIC_DISPATCH(round_column_block);
  team.parallel_for((rows + height - 1) / height, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* y = call.y.f32() + i * height * columns;
      const float* x = call.x.f32() + i * height * columns;
      if (along_rows) {
        row(y, x, static_cast<size_t>(columns), b);
      } else {
        const int64_t here = std::min(height, rows - i * height);
        column_block(y, x, static_cast<size_t>(here), static_cast<size_t>(columns), b);
      }
    }
  });
}

}  // namespace

void CpuOps::absolute_maximum(const AbsoluteMaximum& call) {
  require(call.result.count() == 1, "absolute_maximum");
  std::atomic<uint32_t> most{0};
  const float* x = call.values.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(largest_magnitude_bits);
  team_.parallel_for(call.values.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    const uint32_t own = kernel(x + begin, static_cast<size_t>(end - begin));
    uint32_t seen = most.load();
    while (seen < own && !most.compare_exchange_weak(seen, own)) {
    }
  });
  *call.result.f32() = std::bit_cast<float>(most.load());
}

void CpuOps::quantize(const Quantize& call) {
  require(call.y.count() == call.x.count(), "quantize");
  if (call.group == ScaleGroup::along_rows || call.group == ScaleGroup::along_columns) {
    require(call.block > 0, "quantize");
    round_blocks(team_, call);
    return;
  }
  const float scale =
      call.group == ScaleGroup::tensor ? tensor_scale(call.format, *call.amax.f32()) : 1.0f;
  const Rounding rounding = rounding_of(call.format);
  float* y = call.y.f32();
  const float* x = call.x.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(round_range);
  team_.parallel_for(call.x.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    kernel(y + begin, x + begin, static_cast<size_t>(end - begin), rounding, scale);
  });
}

}  // namespace dettax
#endif
