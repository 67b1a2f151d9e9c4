#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda/runtime/cuda_device.h"
#include "tests/cuda/check/device_check.h"
#include "tests/cuda/standins/cudart.h"

namespace dettax::test {
namespace {

struct Emulated {
  FakeCuda fake{StreamOrder::lazy};
  std::unique_ptr<Device> device = make_cuda_device(0);
};

std::unique_ptr<Emulated>& emulated() {
  static std::unique_ptr<Emulated> the_emulated;
  return the_emulated;
}

}  // namespace

Device& device_under_check() {
  if (!emulated()) emulated() = std::make_unique<Emulated>();
  return *emulated()->device;
}
void let_go_of_device() { emulated().reset(); }
void disturb(uint64_t seed) { EmulatedDevice::of_this_thread().set_schedule(seed); }
int64_t scale_of_check() { return 1; }

}  // namespace dettax::test
