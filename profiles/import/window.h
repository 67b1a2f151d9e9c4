#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiles/import/byte_source.h"

namespace dettax {

// A stretch of a file in memory that slides forward. Behind its last byte lie kPadding zero bytes, so that a scanner may look ahead
// without asking. It grows only if a single value is longer than it.
class Window {
 public:
  static constexpr size_t kPadding = 64;
  static constexpr size_t kBytes = 1024 * 1024;
  static constexpr size_t kBytesMax = 256 * 1024 * 1024;

  Window(ByteSource& source, std::string name);

  const char* begin() const { return bytes_.data() + begin_; }
  const char* end() const { return bytes_.data() + end_; }
  bool at_end_of_file() const { return ended_; }
  int64_t offset() const { return offset_; }  // in the (unpacked) file, of begin()

  // Lets go of everything before `at`, a place in the window.
  void discard(const char* at);
  // More bytes behind end(); begin() and end() change, offset() does not. False if there are none.
  bool extend();

 private:
  ByteSource& source_;
  std::string name_;
  std::vector<char> bytes_;
  size_t begin_ = 0, end_ = 0;
  int64_t offset_ = 0;
  bool ended_ = false;
};

}  // namespace dettax
