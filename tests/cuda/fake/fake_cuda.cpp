// Plays the driver, NVML and the plug-in for presence_test.cpp, as the variables FAKE_CUDA_* say.

#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/device/cuda_presence.h"

namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::atoi(text);
}

void write_fault(char* sentence, size_t size) {
  const char* text = std::getenv("FAKE_CUDA_FAULT");  // NOLINT(concurrency-mt-unsafe)
  std::strncpy(sentence, text == nullptr ? "" : text, size - 1);
}

std::unique_ptr<dettax::Device> make_device(int ordinal) {
  throw dettax::Error(dettax::ErrorKind::infrastructure,
                      "CUDA: no device " + std::to_string(ordinal) + " is played");
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
extern "C" {
int cuInit(unsigned) { return number("FAKE_CUDA_INIT", 0); }
int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_DEVICES", 2);
  return 0;
}
int cuGetErrorString(int result, const char** text) {
  *text = result == 802 ? "system not yet initialized" : nullptr;
  return 0;
}
int nvmlInit_v2() { return number("FAKE_CUDA_NVML", 0); }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "570.1", size);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) {
  *device = device;
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::strncpy(text, "Fake H200", size);
  return 0;
}
const dettax::CudaPlugin* dettax_cuda_plugin() {
  static const dettax::CudaPlugin kRight{dettax::kCudaPluginVersion, DETTAX_VERSION, "CUDA 1, sm_2",
                                         write_fault, make_device};
  static const dettax::CudaPlugin kOther{dettax::kCudaPluginVersion, "0.0.1", "CUDA 1, sm_2",
                                         write_fault, make_device};
  return number("FAKE_CUDA_OTHER_BUILD", 0) == 0 ? &kRight : &kOther;
}
}
// NOLINTEND(readability-identifier-naming)
