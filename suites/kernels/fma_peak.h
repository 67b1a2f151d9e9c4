#pragma once

#include <cstdint>

namespace dettax {

// Fused multiply-adds that need no memory: `rounds` of them on every accumulator, on the calling
// thread. Returns the floating-point operations done.
int64_t multiply_add_in_registers(int64_t rounds);

}  // namespace dettax
