#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/base/fingerprint.h"

namespace dettax {

// Elements of the widest vector; it divides a block.
inline constexpr uint64_t kFingerprintAlignment = 64;

// Adds the mixes of as many leading elements (of 1, 2 or 4 bytes) as fill whole vectors of the best
// instruction set of this machine, and returns how many those were. `first_index` is a multiple of
// kFingerprintAlignment.
size_t fingerprint_vectors(const unsigned char* data, size_t count, size_t element_bytes,
                           uint64_t first_index, Fingerprint& sum);

// Position keys of even and of odd positions.
struct FingerprintKeys {
  alignas(64) uint64_t even[kFingerprintBlock / 2];
  alignas(64) uint64_t odd[kFingerprintBlock / 2];
};
extern const FingerprintKeys kFingerprintKeys;

}  // namespace dettax
