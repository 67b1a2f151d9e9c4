#include "harness/base/fingerprint_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/base/fingerprint_kernel.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
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

// Further than the hardware looks ahead by itself; past the end it is harmless.
constexpr size_t kPrefetchBytes = 2048;

using Words = hn::ScalableTag<uint32_t>;
using Lanes = hn::Repartition<uint64_t, Words>;
using WordVector = hn::Vec<Words>;
using LaneVector = hn::Vec<Lanes>;

HWY_INLINE WordVector as_words(LaneVector v) { return hn::BitCast(Words(), v); }
HWY_INLINE LaneVector as_lanes(WordVector v) { return hn::BitCast(Lanes(), v); }
HWY_INLINE LaneVector product(LaneVector a, LaneVector b) {
  return hn::MulEven(as_words(a), as_words(b));
}

// Modulo 2^64. Not hn::SumOfLanes: g++ 12 writes it for AVX-512 as a sum of signed numbers, which may not overflow.
HWY_INLINE uint64_t sum_lanes(LaneVector v) {
  HWY_ALIGN uint64_t lanes[HWY_MAX_BYTES / sizeof(uint64_t)];
  hn::Store(v, Lanes(), lanes);
  uint64_t sum = 0;
  for (size_t i = 0; i < hn::Lanes(Lanes()); ++i) sum += lanes[i];
  return sum;
}

// The mix of the elements whose bits are the low halves of `w`.
HWY_INLINE void mix(LaneVector w, LaneVector k, LaneVector& lane0, LaneVector& lane1) {
  const LaneVector b = hn::ShiftRight<32>(k);
  const LaneVector h = product(hn::Xor(w, k), b);
  const LaneVector g = product(as_lanes(hn::Add(as_words(w), as_words(k))), hn::Xor(w, b));
  const LaneVector high = hn::ShiftRight<32>(h);
  lane0 = hn::Add(lane0, hn::Xor(h, high));
  lane1 = hn::Add(lane1, hn::Xor(g, high));
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
  LaneVector even0 = hn::Zero(lanes), even1 = even0, odd0 = even0, odd1 = even0;
  const size_t whole = count / step * step;
  for (size_t i = 0; i < whole;) {
    const uint64_t index = first_index + i;
    const size_t position = index % kFingerprintBlock;
    const size_t end = i + HWY_MIN(whole - i, size_t{kFingerprintBlock} - position);
    const LaneVector block = hn::Set(lanes, fingerprint_block_key(index / kFingerprintBlock));
    const uint64_t* even_keys = kFingerprintKeys.even + position / 2;
    const uint64_t* odd_keys = kFingerprintKeys.odd + position / 2;
    for (; i < end; i += step, even_keys += step / 2, odd_keys += step / 2) {
      hwy::Prefetch(data + i * sizeof(T) + kPrefetchBytes);
      // Even elements are the low halves of 64-bit lanes, odd ones the high halves.
      const LaneVector w = as_lanes(load_words<T>(data + i * sizeof(T)));
      mix(w, hn::Xor(hn::LoadU(lanes, even_keys), block), even0, even1);
      mix(hn::ShiftRight<32>(w), hn::Xor(hn::LoadU(lanes, odd_keys), block), odd0, odd1);
    }
  }
  sum.lane0 += sum_lanes(hn::Add(even0, odd0));
  sum.lane1 += sum_lanes(hn::Add(even1, odd1));
  return whole;
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
namespace {

constexpr FingerprintKeys make_keys() {
  FingerprintKeys keys{};
  for (uint64_t i = 0; i < kFingerprintBlock / 2; ++i) {
    keys.even[i] = fingerprint_position_key(2 * i);
    keys.odd[i] = fingerprint_position_key(2 * i + 1);
  }
  return keys;
}

}  // namespace

constexpr FingerprintKeys kFingerprintKeys = make_keys();

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
