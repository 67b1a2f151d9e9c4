#pragma once

#include <cstdint>
#include <memory>

#include "harness/device/device.h"

namespace dettax::test {

// A device of the stand-ins, whose streams run in an order drawn by the seed.
std::unique_ptr<Device> make_emulated_device(int ordinal, uint64_t seed);

}  // namespace dettax::test
