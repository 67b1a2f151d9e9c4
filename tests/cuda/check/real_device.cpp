#include "harness/device/cuda_presence.h"
#include "tests/cuda/check/device_check.h"

namespace dettax::test {

namespace {

std::unique_ptr<Device>& loaded() {
  static std::unique_ptr<Device> the_device;
  return the_device;
}

}  // namespace

Device& device_under_check() {
  if (!loaded()) {
    CudaLibraries libraries = CudaLibraries::of_this_program();
    libraries.plugin = CUDA_PLUGIN;
    loaded() = load_cuda_device(0, libraries);
  }
  return *loaded();
}
void let_go_of_device() { loaded().reset(); }
void disturb(uint64_t seed) { device_under_check().set_jitter(seed); }
int64_t scale_of_check() { return 8; }

}  // namespace dettax::test
