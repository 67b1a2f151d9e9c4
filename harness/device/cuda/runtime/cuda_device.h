#pragma once

#include <memory>

#include "harness/device/device.h"

namespace dettax {

// The device of that number among those this process may use. Its calls, and its end, come from the thread that made it; helpers of
// that thread may copy to it, one at a time. What it cannot do throws Error{infrastructure}.
//
// Everything is enqueued on one stream; the host waits in synchronize(), in copies to the host and where a fingerprint is asked for.
// set_jitter: while it is on, each operation is issued together with a kernel on a second stream that does nothing but hold some
// multiprocessors for up to 0.1 ms, how many and how long drawn from the seed; so blocks of the operation start in another order and
// its sums in order of arrival change theirs. synchronize() then also returns after a random delay, as on a CPU.
std::unique_ptr<Device> make_cuda_device(int ordinal);

}  // namespace dettax
