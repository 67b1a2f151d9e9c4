// What libdettax_cuda.so shows to the program; everything else in it is hidden.

#include <algorithm>
#include <cstring>
#include <string>

#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/runtime/cuda_device.h"
#include "harness/device/cuda_presence.h"

namespace dettax {
namespace {

__global__ void do_nothing() {}

std::string fault() {
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    return std::string("the CUDA runtime finds no device: ") + cudaGetErrorString(status);
  }
  // Before anything makes a context, which an exclusive device has room for once.
  int mode = cudaComputeModeDefault;
  if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0) == cudaSuccess &&
      mode != cudaComputeModeDefault) {
    return "the device's compute mode is not the default one, but arms are processes side by side; "
           "nvidia-smi -c 0 sets it";
  }
  // Asks for code that this device can run; launches nothing.
  cudaFuncAttributes attributes{};
  if (const cudaError_t status = cudaFuncGetAttributes(&attributes, do_nothing);
      status != cudaSuccess) {
    return std::string("the CUDA part does not fit this device: ") + cudaGetErrorString(status);
  }
  return {};
}

void write_fault(char* sentence, size_t size) {
  const std::string words = fault();
  const size_t count = std::min(size - 1, words.size());
  std::memcpy(sentence, words.data(), count);
  sentence[count] = '\0';
}

constexpr CudaPlugin kPlugin{kCudaPluginVersion, DETTAX_VERSION, DETTAX_CUDA_MADE_FOR, write_fault,
                             make_cuda_device};

}  // namespace
}  // namespace dettax

extern "C" __attribute__((visibility("default"))) const dettax::CudaPlugin* dettax_cuda_plugin() {
  return &dettax::kPlugin;
}
