#pragma once

#include <memory>
#include <string>

#include "harness/device/cuda/host/streams.h"
#include "harness/device/cuda/runtime/products.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/cuda/standins/cublaslt.h"

namespace dettax::test {

// Products on the stand-in of cuBLASLt, with the emulated kernels.
struct EmulatedProducts {
  explicit EmulatedProducts(CudaStream stream = nullptr)
      : kernels({stream, 3}, poisoned), products({stream, 3}, kernels, poisoned) {}
  CudaKernels kernels;
  MatrixProducts products;
  MatrixProducts* operator->() { return &products; }
};

// Rows, inputs and outputs of a linear layer.
struct LinearShape {
  int64_t m, k, n;
};
// One; primes; rows that are multiples of 16 bytes and rows that are not; sums long enough to be split.
inline const LinearShape kLinearShapes[] = {{1, 1, 1},    {1, 17, 5},    {3, 64, 33},  {7, 33, 8},
                                            {40, 64, 24}, {48, 130, 72}, {66, 264, 40}};

struct ProductTypes {
  DType in, out;
};
inline const ProductTypes kProductTypes[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};

inline const SumOrder kProductSums[] = {{Order::arrival, false},
                                        {Order::arrival, true},
                                        {Order::ordered, false},
                                        {Order::ordered, true},
                                        {Order::invariant, true}};

}  // namespace dettax::test
