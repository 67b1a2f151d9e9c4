#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/base/error.h"

namespace dettax {

// A folder of its own that goes with it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& command) {
    std::string name =
        (std::filesystem::temp_directory_path() / ("dettax-" + command + "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::infrastructure, name + ": a temporary folder could not be made");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dettax
