#pragma once

#include <string>

namespace dettax {

// A library that is there or not, found when the program runs. It stays loaded until the process ends, since a driver's threads may
// run on; so one that was opened twice is one.
class DynamicLibrary {
 public:
  // A name is looked for as the system does it, a path is taken as it is.
  explicit DynamicLibrary(const std::string& name);
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }  // why it could not be opened

  // Null if the library or the function is not there.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string error_;
};

}  // namespace dettax
