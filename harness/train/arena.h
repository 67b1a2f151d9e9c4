#pragma once

#include <cstdint>
#include <initializer_list>

#include "harness/device/device.h"

namespace dettax {

// One piece of memory for all activations. Lay out twice by the same calls: first without memory, which only adds up the size, then
// after allocate() to get the tensors.
class Arena {
 public:
  Tensor take(DType type, std::initializer_list<int64_t> shape) {
    Tensor tensor = make_tensor(nullptr, type, shape);
    if (buffer_.data() != nullptr) tensor.data = static_cast<char*>(buffer_.data()) + used_;
    used_ += (tensor.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    return tensor;
  }
  Tensor floats(std::initializer_list<int64_t> shape) { return take(DType::f32, shape); }

  void allocate(Device& device) {
    buffer_ = device.allocate(static_cast<size_t>(used_));
    used_ = 0;
  }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.bytes()); }

 private:
  static constexpr int64_t kAlignment = 64;
  Buffer buffer_;
  int64_t used_ = 0;
};

}  // namespace dettax
