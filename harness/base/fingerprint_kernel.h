#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/base/fingerprint.h"

namespace dettax {

// Adds the mixes of as many leading elements (of 1, 2 or 4 bytes) as fill whole vectors of the best
// instruction set of this machine, and returns how many those were.
size_t fingerprint_vectors(const unsigned char* data, size_t count, size_t element_bytes,
                           uint64_t first_index, Fingerprint& sum);

}  // namespace dettax
