#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dettax {

// 128-bit digest of a tensor's raw bits. It is a sum, modulo 2^64 in two independent lanes, of a mix of (raw bits, global index)
// over the elements, so
//  - threads, GPUs and shards may add in any order and the sum is the same;
//  - shards of one tensor add up to the fingerprint of the whole when each uses the element's index in the whole tensor;
//  - a flipped bit, a swap of two elements, the sign of zero, a NaN payload and a shift by a row all change it. A change
//    confined to one element is always seen (the first lane is injective in the bits for a given index); others are missed with a
//    probability of about 2^-64.
// It is not made against an adversary.
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

// Fingerprint of `count` elements of `element_bytes` (1, 2, 4 or 8) each, whose first has the global index `first_index`.
// An 8-byte element counts as two 4-byte ones. Any split of a range gives summands of the same total.
Fingerprint fingerprint(const void* data, size_t count, size_t element_bytes, uint64_t first_index = 0);

// 32 lower-case hexadecimal digits, lane0 first; and back (Error of kind config if it is no such text).
std::string to_string(const Fingerprint& value);
Fingerprint parse_fingerprint(const std::string& text);

}  // namespace dettax
