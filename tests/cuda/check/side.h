#pragma once

#include <initializer_list>
#include <vector>

#include "harness/device/device.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {

// Where an operation runs: a device, and the memory of one call. The same calls on two sides have the same inputs.
class Side {
 public:
  explicit Side(Device& device) : device_(device) {}

  Ops& ops() { return device_.ops(); }
  Tensor put(const Floats& values, std::initializer_list<int64_t> shape) {
    return put(values.data(), DType::f32, shape);
  }
  Tensor put(const Ints& values, std::initializer_list<int64_t> shape) {
    return put(values.data(), DType::i32, shape);
  }
  Tensor floats(std::initializer_list<int64_t> shape, uint32_t stream, double amplitude = 1) {
    return put(random_floats(count_of(shape), stream, amplitude), shape);
  }
  Tensor ints(std::initializer_list<int64_t> shape, uint32_t stream, int64_t below) {
    return put(random_ints(count_of(shape), stream, static_cast<int32_t>(below)), shape);
  }
  // For results: nothing but NaNs.
  Tensor empty(std::initializer_list<int64_t> shape) {
    return put(
        Floats(static_cast<size_t>(count_of(shape)), std::numeric_limits<float>::quiet_NaN()),
        shape);
  }
  Tensor empty_ints(std::initializer_list<int64_t> shape) {
    return put(Ints(static_cast<size_t>(count_of(shape)), -9), shape);
  }
  // Indices as numbers.
  Floats read(const Tensor& tensor) {
    Floats values(static_cast<size_t>(tensor.count()));
    device_.copy_to_host(values.data(), tensor.data, values.size() * sizeof(float));
    if (tensor.type == DType::i32) {
      for (float& value : values) value = static_cast<float>(std::bit_cast<int32_t>(value));
    }
    return values;
  }

 private:
  static int64_t count_of(std::initializer_list<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  Tensor put(const void* values, DType type, std::initializer_list<int64_t> shape) {
    const auto bytes = static_cast<size_t>(count_of(shape)) * size_of(type);
    memory_.push_back(device_.allocate(bytes));
    device_.copy_from_host(memory_.back().data(), values, bytes);
    return make_tensor(memory_.back().data(), type, shape);
  }

  Device& device_;
  std::vector<Buffer> memory_;
};

}  // namespace dettax::test
