// The plug-in over the stand-ins, so that the program runs whole cases of backend cuda where there is no device. Each process draws
// another order of streams and blocks.

#include <cstdlib>
#include <string>

#include <unistd.h>

#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda_presence.h"
#include "tests/cuda/emulated/emulated_device.h"

namespace {

void write_fault(char* sentence, size_t size) {
  if (size > 0) sentence[0] = '\0';
}

std::unique_ptr<dettax::Device> make_device(int ordinal) {
  const auto seed = static_cast<uint64_t>(::getpid());
  dettax::EmulatedDevice::of_this_thread().set_schedule(seed);
  return dettax::test::make_emulated_device(ordinal, seed);
}

}  // namespace

extern "C" const dettax::CudaPlugin* dettax_cuda_plugin() {
  static const dettax::CudaPlugin kPlugin{dettax::kCudaPluginVersion, DETTAX_VERSION,
                                          "an emulated device", write_fault, make_device};
  return &kPlugin;
}
