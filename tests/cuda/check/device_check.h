#pragma once

#include <cstdint>

#include "harness/device/device.h"

// The same tests of a device, twice: in cuda_test of the emulated one, in cuda_device_check of a real one (./dev gpu).

namespace dettax::test {

// Lives as long as the tests.
Device& device_under_check();
// From now on its blocks and streams run in another order; 0: as they come.
void disturb(uint64_t seed);
// How much larger than the smallest the shapes can be.
int64_t scale_of_check();

}  // namespace dettax::test
