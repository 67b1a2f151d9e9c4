#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace dettax {

// Bytes of a file in order, unpacked if it is packed by gzip (told by its first bytes, not by its name).
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `capacity` bytes into `to`; 0 at the end.
  virtual size_t read(char* to, size_t capacity) = 0;
  // Whether the packed stream stopped before its end; false for plain files.
  virtual bool cut_off() const { return false; }
};

// Throws Error if the file cannot be read.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace dettax
