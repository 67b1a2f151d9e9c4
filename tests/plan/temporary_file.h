#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace dettax {

// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text)
      : folder_(std::filesystem::temp_directory_path() /
                ("dettax_plan_" + std::to_string(::getpid()) + "_" + name)) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path(name), std::ios::binary) << text;
    path_ = path(name);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  std::string folder() const { return folder_.string(); }

 private:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace dettax
