#pragma once

#include <cstdint>

namespace dettax::test {

// Of this thread: what draws the times between events. The emulation has no clock.
uint64_t& event_times_seed();

}  // namespace dettax::test
