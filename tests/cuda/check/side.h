#pragma once

#include <bit>
#include <initializer_list>
#include <limits>
#include <vector>

#include "harness/device/device.h"
#include "harness/device/number_format.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {

// Where an operation runs: a device, and the memory of one call. The same calls on two sides have the same inputs.
class Side {
 public:
  // has_bf16: of a CUDA device; a CPU has f32 numbers that bf16 could hold.
  Side(Device& device, bool has_bf16) : device_(device), has_bf16_(has_bf16) {}

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
  Tensor halves(std::initializer_list<int64_t> shape, uint32_t stream) {
    Floats values = random_floats(count_of(shape), stream);
    for (float& value : values) value = round_to(NumberFormat::bf16, value);
    return halves_of(put(values, shape), shape);
  }
  Tensor empty_halves(std::initializer_list<int64_t> shape) {
    return halves_of(empty(shape), shape);
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
    if (tensor.type == DType::bf16) {
      const Tensor numbers = empty({tensor.count()});
      device_.ops().copy(numbers, tensor);
      return read(numbers);
    }
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
  Tensor halves_of(const Tensor& numbers, std::initializer_list<int64_t> shape) {
    if (!has_bf16_) return numbers;
    memory_.push_back(device_.allocate(static_cast<size_t>(numbers.count()) * 2));
    const Tensor halves = make_tensor(memory_.back().data(), DType::bf16, shape);
    device_.ops().copy(halves, numbers);
    return halves;
  }
  Tensor put(const void* values, DType type, std::initializer_list<int64_t> shape) {
    const auto bytes = static_cast<size_t>(count_of(shape)) * size_of(type);
    memory_.push_back(device_.allocate(bytes));
    device_.copy_from_host(memory_.back().data(), values, bytes);
    return make_tensor(memory_.back().data(), type, shape);
  }

  Device& device_;
  bool has_bf16_;
  std::vector<Buffer> memory_;
};

}  // namespace dettax::test
