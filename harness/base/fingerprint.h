#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dettax {

// 128-bit digest of a tensor's raw bits. It is a sum, modulo 2^64 in two independent lanes, of a
// mix of (raw bits, global index) over the elements, so
//  - threads, GPUs and shards may add in any order and the sum is the same;
//  - shards of one tensor add up to the fingerprint of the whole when each uses the element's index
//  in
//    the whole tensor;
//  - a flipped bit, a swap of two elements, the sign of zero, a NaN payload and a shift by a row
//  all
//    change it. A change confined to one element is always seen (the first lane is injective in the
//    bits for a given index); others are missed with a probability of about 2^-64.
// It is not made against an adversary.
//
// The mix, for an element with bits w (zero-extended to 32) and global index i, products 32 x 32 ->
// 64 and sums modulo 2^64; every backend computes exactly this:
//   p = i * kFingerprintStep + kFingerprintStart        a Weyl sequence: one addition an element
//   k = (lo32(p) * hi32(p)) ^ p                         position keys a = lo32(k), b = hi32(k)
//   h = (w ^ a) * (b | 1);        lane0 += h ^ (h >> 32)     injective in w, a multiplier per
//   position g = lo32(w + b) * (rot32(w, 16) ^ a);  lane1 += g ^ (g >> 32)            quadratic in
//   w
// An 8-byte element with index i counts as two 4-byte ones, low half first, with 2i and 2i + 1.
struct Fingerprint {
  uint64_t lane0 = 0;
  uint64_t lane1 = 0;

  Fingerprint& operator+=(const Fingerprint& other) {
    lane0 += other.lane0;
    lane1 += other.lane1;
    return *this;
  }
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

inline constexpr uint64_t kFingerprintStep = 0x9E3779B97F4A7C15U;
inline constexpr uint64_t kFingerprintStart = 0x243F6A8885A308D3U;

// The mix of one element: the definition above as code, usable on any device.
constexpr Fingerprint fingerprint_element(uint32_t bits, uint64_t index) {
  const uint64_t p = index * kFingerprintStep + kFingerprintStart;
  const uint64_t k = (p & 0xFFFFFFFFU) * (p >> 32U) ^ p;
  const uint64_t a = k & 0xFFFFFFFFU;
  const uint64_t b = k >> 32U;
  const uint64_t h = (bits ^ a) * (b | 1U);
  const uint64_t rotated = ((bits << 16U) | (bits >> 16U)) & 0xFFFFFFFFU;
  const uint64_t g = ((bits + b) & 0xFFFFFFFFU) * (rotated ^ a);
  return {h ^ (h >> 32U), g ^ (g >> 32U)};
}

// Fingerprint of `count` elements of `element_bytes` (1, 2, 4 or 8) each, whose first has the
// global index `first_index`. Any split of a range gives summands of the same total. `data` needs
// the alignment of no type.
Fingerprint fingerprint(const void* data, size_t count, size_t element_bytes,
                        uint64_t first_index = 0);

// The same by the definition, element by element: the reference for tests and other backends.
Fingerprint fingerprint_scalar(const void* data, size_t count, size_t element_bytes,
                               uint64_t first_index = 0);

// 32 lower-case hexadecimal digits, lane0 first; and back (Error of kind config if it is no such
// text).
std::string to_string(const Fingerprint& value);
Fingerprint parse_fingerprint(const std::string& text);

}  // namespace dettax
