#include "harness/device/cuda/host/emulation.h"
#include "tests/cuda/standins/cublaslt.h"

namespace dettax::test {

uint64_t schedule_of_this_thread() { return EmulatedDevice::of_this_thread().schedule(); }

}  // namespace dettax::test
