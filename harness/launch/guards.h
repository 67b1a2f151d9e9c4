#pragma once

#include <cstdint>

#include "results/record.h"

namespace dettax {

// What the machine says about itself at one moment; absent sources leave zeros.
struct MachineSample {
  double time_seconds = 0;       // monotonic
  double busy_core_seconds = 0;  // user, nice, system and interrupts, all cores
  double steal_core_seconds = 0;
  double pressure_seconds = 0;  // in which some task waited for a CPU
  double frequency_hz = 0;      // mean over cores
  int cores = 1;
};
MachineSample sample_machine();

// Fills the guards of a block that ran between two samples, of whose CPU time `own_cpu_seconds` was
// the group's own.
void fill_guards(Block& block, const MachineSample& before, const MachineSample& after,
                 double own_cpu_seconds);

}  // namespace dettax
