#include "harness/device/cuda_presence.h"

#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "harness/device/dynamic_library.h"

namespace dettax {
namespace {

constexpr const char* kPluginName = "libdettax_cuda.so";

// The driver's own interface, of which only these are needed. Results are numbers of CUresult; 0 is success.
struct Driver {
  explicit Driver(const std::string& name)
      : library(name),
        init(library.function<int(unsigned)>("cuInit")),
        version(library.function<int(int*)>("cuDriverGetVersion")),
        count(library.function<int(int*)>("cuDeviceGetCount")),
        error_text(library.function<int(int, const char**)>("cuGetErrorString")) {}
  DynamicLibrary library;
  int (*init)(unsigned);
  int (*version)(int*);
  int (*count)(int*);
  int (*error_text)(int, const char**);

  std::string words(int result) const {
    const char* text = nullptr;
    if (error_text != nullptr && error_text(result, &text) == 0 && text != nullptr) return text;
    return "error " + std::to_string(result);
  }
};

struct DriverAnswer {
  std::string missing;
  int devices = 0;
  int version = 0;  // 13000: CUDA 13.0
};

DriverAnswer ask_driver(const std::string& name) {
  const Driver driver(name);
  DriverAnswer answer;
  if (!driver.library) {
    answer.missing = "no NVIDIA driver answers: " + driver.library.error();
  } else if (driver.init == nullptr || driver.version == nullptr || driver.count == nullptr) {
    answer.missing =
        name + " is no CUDA driver: it lacks cuInit, cuDriverGetVersion or cuDeviceGetCount";
  } else if (const int result = driver.init(0); result != 0) {
    answer.missing = "the NVIDIA driver does not start: " + driver.words(result);
  } else if (driver.version(&answer.version) != 0 || driver.count(&answer.devices) != 0) {
    answer.missing = "the NVIDIA driver does not say what it has";
  } else if (answer.devices == 0) {
    answer.missing = "the NVIDIA driver has no device for this process; see CUDA_VISIBLE_DEVICES";
  }
  return answer;
}

// NVML says what the driver does not: its own version and the names of devices. Empty if it does not answer.
std::string ask_management(const std::string& name) {
  const DynamicLibrary library(name);
  auto* init = library.function<int()>("nvmlInit_v2");
  auto* shut_down = library.function<int()>("nvmlShutdown");
  auto* version = library.function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  auto* count = library.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  auto* handle = library.function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  auto* device_name = library.function<int(void*, char*, unsigned)>("nvmlDeviceGetName");
  if (init == nullptr || shut_down == nullptr || version == nullptr || count == nullptr ||
      handle == nullptr || device_name == nullptr || init() != 0) {
    return {};
  }
  std::array<char, 96> text{};
  std::string words;
  if (version(text.data(), static_cast<unsigned>(text.size())) == 0) words = text.data();
  unsigned devices = 0;
  std::set<std::string> names;
  if (count(&devices) != 0) devices = 0;
  for (unsigned i = 0; i < devices; ++i) {
    void* device = nullptr;
    if (handle(i, &device) == 0 &&
        device_name(device, text.data(), static_cast<unsigned>(text.size())) == 0) {
      names.insert(text.data());
    }
  }
  for (const std::string& each : names) words += ", " + each;
  shut_down();
  return words;
}

std::string version_words(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string describe(const DriverAnswer& driver, const std::string& management) {
  return std::to_string(driver.devices) + (driver.devices == 1 ? " device" : " devices") +
         ", driver for CUDA " + version_words(driver.version) +
         (management.empty() ? ", without NVML" : " (" + management + ")");
}

// The plug-in, or why there is none.
struct LoadedPlugin {
  const CudaPlugin* plugin = nullptr;
  std::string missing;
};

std::string why_not_loaded(const std::string& error) {
  const bool products = error.find("libcublas") != std::string::npos;
  return "the CUDA part cannot be loaded: " + error +
         (products ? "; install cuBLAS of that version, or name its folder in LD_LIBRARY_PATH"
                   : "");
}

LoadedPlugin load_plugin(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) {
    return {nullptr, std::string("this build has no CUDA part: there is no ") + kPluginName +
                         " beside the program; build where nvcc is"};
  }
  const DynamicLibrary library(path);
  if (!library) return {nullptr, why_not_loaded(library.error())};
  auto* entry = library.function<CudaPluginEntry>(kCudaPluginEntry);
  if (entry == nullptr) return {nullptr, path + " is no CUDA part of dettax"};
  const CudaPlugin* plugin = entry();
  if (plugin->version != kCudaPluginVersion || std::string_view(plugin->build) != DETTAX_VERSION) {
    return {nullptr, path + " is of another build of dettax; build and install both together"};
  }
  return {plugin, {}};
}

// Adds to what was found; returns what is missing.
std::string ask_plugin(const std::string& path, std::string& found) {
  const LoadedPlugin loaded = load_plugin(path);
  if (loaded.plugin == nullptr) return loaded.missing;
  found += std::string("; CUDA part made for ") + loaded.plugin->made_for;
  std::array<char, 512> sentence{};
  loaded.plugin->write_fault(sentence.data(), sentence.size());
  return sentence.data();
}

}  // namespace

CudaLibraries CudaLibraries::of_this_program() {
  CudaLibraries libraries;
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return libraries;
  for (const auto& path : {folder / kPluginName, folder.parent_path() / "lib" / kPluginName}) {
    if (std::filesystem::exists(path, error)) {
      libraries.plugin = path.string();
      break;
    }
  }
  return libraries;
}

CudaPresence find_cuda(const CudaLibraries& libraries) {
  const DriverAnswer driver = ask_driver(libraries.driver);
  if (!driver.missing.empty()) return {driver.missing, {}};
  CudaPresence presence;
  presence.found = describe(driver, ask_management(libraries.management));
  presence.missing = ask_plugin(libraries.plugin, presence.found);
  return presence;
}

std::unique_ptr<Device> load_cuda_device(int ordinal, const CudaLibraries& libraries) {
  const LoadedPlugin loaded = load_plugin(libraries.plugin);
  if (loaded.plugin == nullptr)
    throw Error(ErrorKind::infrastructure, "backend cuda: " + loaded.missing);
  return loaded.plugin->make_device(ordinal);
}

}  // namespace dettax
