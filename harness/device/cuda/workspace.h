#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dettax {

// Arrays laid one behind the other at multiples of 256 bytes: first all are asked for, then, when the memory is there, found.
class WorkspaceLayout {
 public:
  // Returns the array's number.
  template <class T>
  size_t add(int64_t count) {
    offsets_.push_back(bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return offsets_.size() - 1;
  }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* at(std::byte* memory, size_t array) const {
    return reinterpret_cast<T*>(memory + offsets_[array]);
  }

 private:
  std::vector<size_t> offsets_;
  size_t bytes_ = 0;
};

}  // namespace dettax
