#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/device/device.h"

namespace dettax {

// The border between the program, which links nothing of CUDA, and libdettax_cuda.so, which does. The plug-in is loaded only where a
// driver answers; so one program runs on machines with and without.

// What the plug-in gives under the name dettax_cuda_plugin. Both sides are of one build: `version` is that of this table, `build` that
// of dettax.
struct CudaPlugin {
  uint32_t version;
  const char* build;     // DETTAX_VERSION
  const char* made_for;  // "CUDA 13.0, sm_90"
  // Writes a sentence about what keeps this process from using the devices, cut to `size`; an empty one if nothing does.
  void (*write_fault)(char* sentence, size_t size);
  // The device of that number among those the process may use. Throws Error.
  std::unique_ptr<Device> (*make_device)(int ordinal);
};
inline constexpr uint32_t kCudaPluginVersion = 2;
using CudaPluginEntry = const CudaPlugin*();
inline constexpr const char* kCudaPluginEntry = "dettax_cuda_plugin";

// Where its parts are looked for; tests name others.
struct CudaLibraries {
  std::string driver = "libcuda.so.1";
  std::string management = "libnvidia-ml.so.1";
  std::string plugin;

  // The plug-in beside the program, or in the lib folder beside the program's.
  static CudaLibraries of_this_program();
};

struct CudaPresence {
  std::string
      missing;  // why no case can run on CUDA here: one sentence without a full stop; empty if nothing is
  std::string found;  // what answered: driver, devices, plug-in; may be empty
};

// Asks the driver, then the plug-in; opens the latter only if the former has a device. Never throws for what is not there.
CudaPresence find_cuda(const CudaLibraries& libraries = CudaLibraries::of_this_program());

// A device from the plug-in, which stays loaded until the process ends. Throws Error{infrastructure} where there is none.
std::unique_ptr<Device> load_cuda_device(
    int ordinal, const CudaLibraries& libraries = CudaLibraries::of_this_program());

}  // namespace dettax
