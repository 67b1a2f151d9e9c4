#include "harness/device/dynamic_library.h"

#include <dlfcn.h>

namespace dettax {

DynamicLibrary::DynamicLibrary(const std::string& name)
    : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): its message is the thread's own
  error_ = why == nullptr ? name + " cannot be opened" : why;
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

}  // namespace dettax
