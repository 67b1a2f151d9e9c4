// Sixteen virtual lanes of float: one AVX-512 vector, two of AVX2, four of 128 bits. Every sum
// inside a row is made of them - lane j of group g adds the elements 64 i + 16 g + j in order, then
// lanes and groups are folded in halves - so its bits do not depend on the width of the machine's
// vectors.

// Highway's guard: the file is read once for each target.
#if defined(DETTAX_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_LANES_INL_H
#undef DETTAX_LANES_INL_H
#else
#define DETTAX_LANES_INL_H
#endif

#include <cstddef>
#include <cstring>

#include "harness/device/cpu/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;
inline constexpr size_t kLanes = 16;
inline constexpr size_t kVectorLanes = hn::MaxLanes(FloatTag());
inline constexpr size_t kParts = kLanes / kVectorLanes;

struct Lanes {
  FloatVector part[kParts];
};

template <class F>
HWY_INLINE Lanes each_part(F f) {
  Lanes result;
  for (size_t p = 0; p < kParts; ++p) result.part[p] = f(p);
  return result;
}

HWY_INLINE Lanes load(const float* from) {
  return each_part([&](size_t p) { return hn::LoadU(FloatTag(), from + p * kVectorLanes); });
}
HWY_INLINE void store(const Lanes& v, float* to) {
  for (size_t p = 0; p < kParts; ++p) hn::StoreU(v.part[p], FloatTag(), to + p * kVectorLanes);
}
HWY_INLINE Lanes set(float value) {
  return each_part([&](size_t) { return hn::Set(FloatTag(), value); });
}
HWY_INLINE Lanes add(const Lanes& a, const Lanes& b) {
  return each_part([&](size_t p) { return hn::Add(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes sub(const Lanes& a, const Lanes& b) {
  return each_part([&](size_t p) { return hn::Sub(a.part[p], b.part[p]); });
}
HWY_INLINE Lanes mul(const Lanes& a, const Lanes& b) {
  return each_part([&](size_t p) { return hn::Mul(a.part[p], b.part[p]); });
}
// a * b + c and c - a * b, rounded once.
HWY_INLINE Lanes mul_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_part([&](size_t p) { return hn::MulAdd(a.part[p], b.part[p], c.part[p]); });
}
HWY_INLINE Lanes neg_mul_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_part([&](size_t p) { return hn::NegMulAdd(a.part[p], b.part[p], c.part[p]); });
}
HWY_INLINE Lanes max(const Lanes& a, const Lanes& b) {
  return each_part([&](size_t p) { return hn::Max(a.part[p], b.part[p]); });
}

// How a kernel sees the elements of a row: sixteen at once, or the last few of it. Written as two
// types with the same functions so that a row's loop and its end are one piece of code.
struct Whole {
  HWY_INLINE Lanes read(const float* from) const { return load(from); }
  HWY_INLINE void write(const Lanes& v, float* to) const { store(v, to); }
  HWY_INLINE Lanes valid_or(const Lanes& v, float) const { return v; }
};
struct Rest {
  size_t count;
  // Lanes behind the end read as 0.
  HWY_INLINE Lanes read(const float* from) const {
    float copy[kLanes] = {};
    std::memcpy(copy, from, count * sizeof(float));
    return load(copy);
  }
  HWY_INLINE void write(const Lanes& v, float* to) const {
    float copy[kLanes];
    store(v, copy);
    std::memcpy(to, copy, count * sizeof(float));
  }
  // The lanes behind the end replaced by `other`.
  HWY_INLINE Lanes valid_or(const Lanes& v, float other) const {
    float copy[kLanes];
    store(v, copy);
    for (size_t j = count; j < kLanes; ++j) copy[j] = other;
    return load(copy);
  }
};

// Calls f(access, i) for i = 0, 16, 32, ... < count.
template <class F>
HWY_INLINE void for_each_lanes(size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(Whole(), i);
  if (i < count) f(Rest{count - i}, i);
}

#if HWY_TARGET != HWY_SCALAR
template <class D, class V>
HWY_INLINE float fold_sum(D, V v) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    return fold_sum(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#else
HWY_INLINE float fold_sum(FloatTag, FloatVector v) { return hn::GetLane(v); }
#endif
HWY_INLINE float sum(Lanes v) {
  for (size_t width = kParts / 2; width > 0; width /= 2) {
    for (size_t p = 0; p < width; ++p) v.part[p] = hn::Add(v.part[p], v.part[p + width]);
  }
  return fold_sum(FloatTag(), v.part[0]);
}
HWY_INLINE float largest(const Lanes& v) {
  auto m = v.part[0];
  for (size_t p = 1; p < kParts; ++p) m = hn::Max(m, v.part[p]);
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), m));
}

// Sum over a row of `count` elements; f(access, i, partial) returns the partial sum with elements
// i .. i + 15 added, and must add nothing for lanes behind the end.
template <class F>
HWY_INLINE float row_sum(size_t count, F f) {
  Lanes partial[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
  size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (size_t g = 0; g < 4; ++g) partial[g] = f(Whole(), i + g * kLanes, partial[g]);
  }
  for (size_t g = 0; i < count; i += kLanes, ++g) {
    if (i + kLanes <= count) {
      partial[g] = f(Whole(), i, partial[g]);
    } else {
      partial[g] = f(Rest{count - i}, i, partial[g]);
    }
  }
  return sum(add(add(partial[0], partial[2]), add(partial[1], partial[3])));
}

// e^x for x <= 0 within 2 ulp; 0 from -80 on, where the general exp would go on to the smallest normal
// number. NaN stays NaN.
HWY_INLINE FloatVector exp_nonpositive(FloatVector x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto lowest = hn::Set(d, -80.0f);
  // A NaN must come through: vector units return it in the second operand, C++ in the first.
  constexpr bool kEmulated = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128;
  const auto clamped = kEmulated ? hn::Max(x, lowest) : hn::Max(lowest, x);
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto rounded = hn::MulAdd(clamped, hn::Set(d, 1.442695041f), magic);
  const auto n = hn::Sub(rounded, magic);
  const auto p = exp_of_rest(d, clamped, n);
  // 1/2 < p < 2 and n >= -116: adding n to the exponent cannot leave the normal range.
  const auto bits = hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
  // The difference is 0 below the lowest, and NaN for NaN.
  return hn::IfThenElse(hn::Gt(x, lowest), hn::BitCast(d, bits), hn::Sub(clamped, lowest));
}
HWY_INLINE Lanes exp_nonpositive(const Lanes& v) {
  return each_part([&](size_t p) { return exp_nonpositive(v.part[p]); });
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
