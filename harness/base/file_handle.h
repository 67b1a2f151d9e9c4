#pragma once

#include <filesystem>
#include <string_view>

namespace dettax {

// A file descriptor with errors that name the file. Not for text that may be lost: what was not
// synced is not on the disk.
class FileHandle {
 public:
  FileHandle(const std::filesystem::path& path, int flags);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  void write(std::string_view text);
  void sync();
  void close();  // reports what the destructor could not
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace dettax
