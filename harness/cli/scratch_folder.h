#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {

// A folder that files are to be kept in, made if need be. Error{infrastructure} where it cannot take any, as `run` says it.
inline void require_folder(const std::string& flag, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!std::filesystem::is_directory(path, error) || ::access(path.c_str(), W_OK) != 0)
    throw Error(ErrorKind::infrastructure,
                flag + " " + path + " is no folder that can be written; give another one");
}

// A folder of its own that goes with it. It is made after an InterruptWatch: when that goes, a signal that waits ends the process.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& command) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    std::string name = (folder / ("dettax-" + command + "-XXXXXX")).string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::usage,
                  name +
                      ": a temporary folder could not be made; TMPDIR has to name "
                      "a folder that can be written");
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
