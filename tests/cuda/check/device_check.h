#pragma once

#include <cstdint>

#include "harness/device/device.h"

// The same tests of a device, twice: in cuda_test of the emulated one, in cuda_device_check of a real one (./dev gpu).

namespace dettax::test {

// Made when it is first asked for; lives until let go.
Device& device_under_check();
void let_go_of_device();
// From now on its blocks and streams run in another order; 0: as they come.
void disturb(uint64_t seed);
// How much larger than the smallest the shapes can be.
int64_t scale_of_check();

}  // namespace dettax::test
