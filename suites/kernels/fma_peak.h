#pragma once

#include <cstdint>

#include "harness/device/cpu/team.h"

namespace dettax {

// Fused multiply-adds that need no memory: `rounds` of them on every accumulator, on the calling
// thread. Returns the floating-point operations done.
int64_t multiply_add_in_registers(int64_t rounds);

// What the threads of the team reach together in about a millisecond of that, in operations a second.
double peak_flops_per_second(Team& team);

}  // namespace dettax
