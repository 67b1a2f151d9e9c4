#include "profiles/cupti/cupti_table.h"

#include <array>

#include <dlfcn.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

// What the loader says, without the name of the library in front of it, which the sentence has already.
std::string loader_error(const std::string& library) {
  const char* told = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is of the thread
  std::string text = told == nullptr ? "it cannot be opened" : told;
  if (text.starts_with(library + ": ")) text.erase(0, library.size() + 2);
  return text;
}

class Loader {
 public:
  Loader(void* handle, const std::string& library) : handle_(handle), library_(library) {}

  template <typename Function>
  void find(Function& function, const char* name) {
    find_if_there(function, name);
    if (function == nullptr)
      throw Error(ErrorKind::infrastructure, "CUPTI: " + library_ + ": has no function " + name +
                                                 "; version 12.5 or newer is needed");
  }

  template <typename Function>
  void find_if_there(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
  }

 private:
  void* handle_;
  const std::string& library_;
};

CuptiTable table_of(void* handle, const std::string& library) {
  CuptiTable table;
  table.library = library;
  Loader loader(handle, library);
  loader.find(table.get_version, "cuptiGetVersion");
  loader.find(table.get_result_string, "cuptiGetResultString");
  loader.find(table.subscribe, "cuptiSubscribe");
  loader.find_if_there(table.subscribe_v2, "cuptiSubscribe_v2");
  loader.find(table.unsubscribe, "cuptiUnsubscribe");
  loader.find(table.enable_callback, "cuptiEnableCallback");
  loader.find(table.get_callback_name, "cuptiGetCallbackName");
  loader.find(table.enable, "cuptiActivityEnable");
  loader.find(table.disable, "cuptiActivityDisable");
  loader.find_if_there(table.enable_runtime_api, "cuptiActivityEnableRuntimeApi");
  loader.find_if_there(table.enable_driver_api, "cuptiActivityEnableDriverApi");
  loader.find(table.register_callbacks, "cuptiActivityRegisterCallbacks");
  loader.find(table.get_next_record, "cuptiActivityGetNextRecord");
  loader.find(table.get_dropped, "cuptiActivityGetNumDroppedRecords");
  loader.find(table.flush_all, "cuptiActivityFlushAll");
  loader.find(table.set_attribute, "cuptiActivitySetAttribute");
  loader.find(table.set_thread_id_type, "cuptiSetThreadIdType");
  loader.find(table.push_external, "cuptiActivityPushExternalCorrelationId");
  loader.find(table.pop_external, "cuptiActivityPopExternalCorrelationId");
  const CUptiResult result = table.get_version(&table.version);
  if (result != CUPTI_SUCCESS)
    throw Error(ErrorKind::infrastructure,
                "CUPTI: " + library + ": tells no version: " + table.told(result));
  return table;
}

}  // namespace

std::string CuptiTable::told(CUptiResult result) const {
  const char* name = nullptr;
  const bool named = get_result_string(result, &name) == CUPTI_SUCCESS && name != nullptr;
  return (named ? std::string(name) + " (" : "error (") + std::to_string(result) + ")";
}

CuptiTable load_cupti(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw Error(ErrorKind::infrastructure, "CUPTI: " + library + ": " + loader_error(library));
  return table_of(handle, library);
}

CuptiTable load_cupti() {
  static constexpr std::array<const char*, 2> kNames{"libcupti.so.13", "libcupti.so.12"};
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return table_of(handle, name);
  }
  std::string missing;
  for (const char* name : {kNames[0], kNames[1], DETTAX_TOOLKIT_CUPTI}) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return table_of(handle, name);
    const std::string told = loader_error(name);
    if (missing.empty()) missing = std::string(name) + ": " + told;
  }
  throw Error(ErrorKind::infrastructure, "CUPTI: " + missing);
}

}  // namespace dettax
