#include "harness/device/cuda_presence.h"
#include "tests/cuda/check/device_check.h"

namespace dettax::test {

Device& device_under_check() {
  static const std::unique_ptr<Device> kDevice = [] {
    CudaLibraries libraries;
    libraries.plugin = CUDA_PLUGIN;
    return load_cuda_device(0, libraries);
  }();
  return *kDevice;
}
void disturb(uint64_t seed) { device_under_check().set_jitter(seed); }
int64_t scale_of_check() { return 8; }

}  // namespace dettax::test
