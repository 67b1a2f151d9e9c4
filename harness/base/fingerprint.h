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
// The mix, for an element with bits w (zero-extended to 32) and global index i, products 32 x 32 -> 64
// and sums modulo 2^64; every backend computes exactly this:
//   k = (key(i mod 1024) | 2^32) ^ (key(1024 + i div 1024) & ~2^32)    key: splitmix64, below
//   a = lo32(k), b = hi32(k)                                           b is odd
//   h = (w ^ a) * b;              lane0 += h ^ (h >> 32)     injective in w, a multiplier per position
//   g = lo32(w + a) * (w ^ b);    lane1 += g ^ (h >> 32)     quadratic in w
// The key of a position is two keys combined so that a kernel needs one table of 1024 and one key a
// block. An 8-byte element with index i counts as two 4-byte ones, low half first, with 2i and 2i + 1.
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

inline constexpr uint64_t kFingerprintBlock = 1024;

constexpr uint64_t fingerprint_key(uint64_t n) {
  uint64_t z = (n + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

// The two parts of k, by position inside a block and by block.
constexpr uint64_t fingerprint_position_key(uint64_t position) {
  return fingerprint_key(position) | (uint64_t{1} << 32U);
}
constexpr uint64_t fingerprint_block_key(uint64_t block) {
  return fingerprint_key(kFingerprintBlock + block) & ~(uint64_t{1} << 32U);
}

// The mix of one element: the definition above as code, usable on any device.
constexpr Fingerprint fingerprint_element(uint32_t bits, uint64_t index) {
  const uint64_t k = fingerprint_position_key(index % kFingerprintBlock) ^
                     fingerprint_block_key(index / kFingerprintBlock);
  const uint64_t a = k & 0xFFFFFFFFU;
  const uint64_t b = k >> 32U;
  const uint64_t h = (bits ^ a) * b;
  const uint64_t g = ((bits + a) & 0xFFFFFFFFU) * (bits ^ b);
  return {h ^ (h >> 32U), g ^ (h >> 32U)};
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
