#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/device.h"
#include "harness/device/ops.h"

namespace dettax {

class PinnedMemory;
class ProductPlans;
struct ProductCall;
struct WeightGradient;

// Some of a matrix.
struct ProductRows {
  int64_t first, count;
};

// The operations of ops.h that are products of matrices, by cuBLASLt: which of its algorithms, says product_plans.h. f32 matrices give
// f32 (as tf32 where a call's operands may be), bf16 ones bf16 or f32; sums are f32; the gradient of a bias is f32. What a product does
// not do itself, kernels do.
//
//  bias, residual   within the product; the residual is added first
//  gelu, its gradient   arrival and ordered, where the call may: within the product if the library can (its formula is the tanh form by
//                   common use, not by its documentation); else a kernel, with the bits of gelu_forward
//  gradient of a bias   arrival and ordered: within the product where the library can; else a kernel of that order
//  weight gradients, invariant   a product for each sample, added by kernels along the tree: 1 + log2(samples) gradients of working
//                   memory in f32, and three passes over them for each sample
//  experts          a product each, after the rows that they have were copied to the host: every call waits for the stream
//
// Working memory is kept between calls.
class MatrixProducts {
 public:
  // `allocate` as in CudaKernels.
  MatrixProducts(const KernelPlace& place, CudaKernels& kernels,
                 std::function<Buffer(size_t)> allocate);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  void linear_forward(const LinearForward& call);
  void linear_backward_input(const LinearBackwardInput& call);
  void linear_backward_weight(const LinearBackwardWeight& call);
  void fused_linear_cross_entropy(const FusedLinearCrossEntropy& call);
  void expert_linear_forward(const ExpertLinearForward& call);
  void expert_linear_backward_input(const ExpertLinearBackwardInput& call);
  void expert_linear_backward_weight(const ExpertLinearBackwardWeight& call);

  const ProductPlans& product_plans() const { return *plans_; }

 private:
  bool forward_with_gelu(const LinearForward& call, const ProductCall& product);
  bool gradient_with_bias(const LinearBackwardWeight& call, const WeightGradient& gradient);
  void add_rows(const WeightGradient& gradient, ProductRows rows, const Tensor& dw,
                bool accumulate);
  void add_samples(const WeightGradient& gradient, std::span<const ProductRows> samples,
                   bool accumulate);
  void add_sum(const Tensor& dw, const Tensor& sum, const Tensor& spare, bool accumulate);
  // Throws Error{unsupported} where the library has no algorithm.
  void run(const ProductCall& call);
  const int32_t* to_host(const Tensor& segments);  // until the next call
  float* working_floats(int64_t count);

  KernelPlace place_;
  CudaKernels& kernels_;
  std::function<Buffer(size_t)> allocate_;
  std::unique_ptr<ProductPlans> plans_;
  Buffer memory_;
  std::unique_ptr<PinnedMemory> on_host_;
};

}  // namespace dettax
