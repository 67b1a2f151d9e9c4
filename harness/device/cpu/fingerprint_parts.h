#pragma once

#include <span>
#include <vector>

#include "harness/device/cpu/team.h"
#include "harness/device/device.h"

namespace dettax {

// Fingerprints of all parts in one pass: each thread takes as many bytes as any other, wherever tensors
// begin and end.
std::vector<Fingerprint> fingerprint_parts(Team& team, std::span<const FingerprintPart> parts);

}  // namespace dettax
