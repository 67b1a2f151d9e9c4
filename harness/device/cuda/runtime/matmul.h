#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include <cublasLt.h>

#include "harness/device/number_format.h"
#include "harness/device/tensor.h"

namespace dettax {

// A product as cuBLASLt is told of it: D[m,n] = epilogue(op(A) op(B) + C), or without C. Its matrices are column-major and dense, so a
// row-major one of ours is its own transpose: see products.cpp.
struct Matmul {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool add_c = false;
  DType in = DType::f32;  // of A and B
  DType out =
      DType::f32;  // of C and D, and of the vector or matrix that an epilogue reads or writes
  NumberFormat operands = NumberFormat::f32;  // tf32: A and B of f32 may be rounded to it
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  auto operator<=>(const Matmul&) const = default;
};
std::string to_string(const Matmul& product);

struct MatmulMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // may be d
  void* d = nullptr;
  const void* vector = nullptr;  // of an epilogue with a bias: read, or with its gradient: written
  const void* auxiliary = nullptr;  // of an epilogue with gelu: written, or with its gradient: read
};

// The library's descriptors of a product. Made anew for every call: they are a few hundred bytes and nothing is looked up.
class MatmulDescriptors {
 public:
  MatmulDescriptors(const Matmul& product, const MatmulMemory& memory);
  ~MatmulDescriptors();
  MatmulDescriptors(const MatmulDescriptors&) = delete;
  MatmulDescriptors& operator=(const MatmulDescriptors&) = delete;

  cublasLtMatmulDesc_t operation() const { return operation_; }
  cublasLtMatrixLayout_t a() const { return a_; }
  cublasLtMatrixLayout_t b() const { return b_; }
  cublasLtMatrixLayout_t d() const { return d_; }  // and of C

 private:
  void make(const Matmul& product, const MatmulMemory& memory);
  void destroy();

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
};

}  // namespace dettax
