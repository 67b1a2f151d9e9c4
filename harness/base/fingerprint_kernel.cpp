#include "harness/base/fingerprint_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/base/fingerprint_kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// A single lane cannot hold an even and an odd element: the caller's scalar rest does all the work.
template <typename T>
size_t sum_vectors(const unsigned char*, size_t, uint64_t, Fingerprint&) {
  return 0;
}
#else

using Words = hn::ScalableTag<uint32_t>;
using Lanes = hn::Repartition<uint64_t, Words>;
using WordVector = hn::Vec<Words>;
using LaneVector = hn::Vec<Lanes>;

HWY_INLINE WordVector as_words(LaneVector v) { return hn::BitCast(Words(), v); }
HWY_INLINE LaneVector as_lanes(WordVector v) { return hn::BitCast(Lanes(), v); }
HWY_INLINE LaneVector product(LaneVector a, LaneVector b) {
  return hn::MulEven(as_words(a), as_words(b));
}
HWY_INLINE LaneVector fold(LaneVector v) { return hn::Xor(v, hn::ShiftRight<32>(v)); }

// The mix of the elements whose bits, and bits rotated by 16, are the low halves of `w` and
// `rotated`.
HWY_INLINE void mix(LaneVector w, LaneVector rotated, LaneVector p, LaneVector& lane0,
                    LaneVector& lane1) {
  const LaneVector a = hn::Xor(product(p, hn::ShiftRight<32>(p)), p);
  const LaneVector b = hn::ShiftRight<32>(a);
  const LaneVector h = product(hn::Xor(w, a), hn::Or(b, hn::Set(Lanes(), 1)));
  const LaneVector g = product(hn::Add(w, b), hn::Xor(rotated, a));
  lane0 = hn::Add(lane0, fold(h));
  lane1 = hn::Add(lane1, fold(g));
}

template <typename T>
HWY_INLINE WordVector load_words(const unsigned char* data) {
  const hn::Rebind<T, Words> narrow;
  const auto* elements = reinterpret_cast<const T*>(data);
  if constexpr (sizeof(T) == 4) {
    return hn::LoadU(narrow, elements);
  } else {
    return hn::PromoteTo(Words(), hn::LoadU(narrow, elements));
  }
}

template <typename T>
size_t sum_vectors(const unsigned char* data, size_t count, uint64_t first_index,
                   Fingerprint& sum) {
  const Lanes lanes;
  const size_t step = hn::Lanes(Words());
  // Even elements are the low halves of 64-bit lanes, odd ones the high halves.
  const LaneVector index =
      hn::Add(hn::Set(lanes, first_index), hn::Add(hn::Iota(lanes, 0), hn::Iota(lanes, 0)));
  const LaneVector one_step = hn::Set(lanes, kFingerprintStep);
  LaneVector even = hn::Add(hn::Mul(index, one_step), hn::Set(lanes, kFingerprintStart));
  LaneVector odd = hn::Add(even, one_step);
  const LaneVector advance = hn::Set(lanes, step * kFingerprintStep);
  LaneVector even0 = hn::Zero(lanes), even1 = even0, odd0 = even0, odd1 = even0;
  size_t i = 0;
  for (; i + step <= count; i += step) {
    const WordVector words = load_words<T>(data + i * sizeof(T));
    const LaneVector w = as_lanes(words);
    const LaneVector rotated = as_lanes(hn::RotateRight<16>(words));
    mix(w, rotated, even, even0, even1);
    mix(hn::ShiftRight<32>(w), hn::ShiftRight<32>(rotated), odd, odd0, odd1);
    even = hn::Add(even, advance);
    odd = hn::Add(odd, advance);
  }
  sum.lane0 += hn::GetLane(hn::SumOfLanes(lanes, hn::Add(even0, odd0)));
  sum.lane1 += hn::GetLane(hn::SumOfLanes(lanes, hn::Add(even1, odd1)));
  return i;
}
#endif

size_t vectors_u8(const unsigned char* data, size_t count, uint64_t first, Fingerprint& sum) {
  return sum_vectors<uint8_t>(data, count, first, sum);
}
size_t vectors_u16(const unsigned char* data, size_t count, uint64_t first, Fingerprint& sum) {
  return sum_vectors<uint16_t>(data, count, first, sum);
}
size_t vectors_u32(const unsigned char* data, size_t count, uint64_t first, Fingerprint& sum) {
  return sum_vectors<uint32_t>(data, count, first, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(vectors_u8);
HWY_EXPORT(vectors_u16);
HWY_EXPORT(vectors_u32);

size_t fingerprint_vectors(const unsigned char* data, size_t count, size_t element_bytes,
                           uint64_t first_index, Fingerprint& sum) {
  switch (element_bytes) {
    case 1:
      return HWY_DYNAMIC_DISPATCH(vectors_u8)(data, count, first_index, sum);
    case 2:
      return HWY_DYNAMIC_DISPATCH(vectors_u16)(data, count, first_index, sum);
    default:
      return HWY_DYNAMIC_DISPATCH(vectors_u32)(data, count, first_index, sum);
  }
}

}  // namespace dettax
#endif  // HWY_ONCE
