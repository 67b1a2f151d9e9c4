#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "harness/base/error.h"

namespace dettax {

// bf16 exists on CUDA devices alone: a CPU device computes what a narrow format would hold in f32 (Quantize).
enum class DType { f32, i32, bf16 };
inline size_t size_of(DType type) { return type == DType::bf16 ? 2 : 4; }

// A dense, row-major view of device memory that somebody else owns. Up to four dimensions.
struct Tensor {
  void* data = nullptr;
  DType type = DType::f32;
  std::array<int64_t, 4> shape{1, 1, 1, 1};
  int rank = 0;

  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  int64_t bytes() const { return count() * static_cast<int64_t>(size_of(type)); }
  // Product of all dimensions but the last, and the last: most operations see a matrix.
  int64_t rows() const { return rank == 0 ? 1 : count() / columns(); }
  int64_t columns() const { return rank == 0 ? 1 : shape[static_cast<size_t>(rank - 1)]; }
  explicit operator bool() const { return data != nullptr; }

  float* f32() const {
    if (type != DType::f32) throw Error(ErrorKind::internal, "tensor is not f32");
    return static_cast<float*>(data);
  }
  int32_t* i32() const {
    if (type != DType::i32) throw Error(ErrorKind::internal, "tensor is not i32");
    return static_cast<int32_t*>(data);
  }
};

inline Tensor make_tensor(void* data, DType type, std::initializer_list<int64_t> shape) {
  Tensor t{data, type, {1, 1, 1, 1}, static_cast<int>(shape.size())};
  size_t i = 0;
  for (int64_t extent : shape) t.shape[i++] = extent;
  return t;
}

}  // namespace dettax
