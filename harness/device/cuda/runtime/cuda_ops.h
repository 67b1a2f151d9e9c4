#pragma once

#include <cstddef>
#include <functional>

#include "harness/device/cpu/jitter.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/runtime/products.h"
#include "harness/device/ops.h"

namespace dettax {

// The operations on a device: our kernels and the products of a library, on one stream. Under jitter each is issued together with a
// kernel on `side` that holds multiprocessors; see cuda_device.h.
class CudaOps final : public Ops {
 public:
  CudaOps(const KernelPlace& place, CudaStream side, const std::function<Buffer(size_t)>& allocate);

  void set_jitter(const Jitter& jitter) { jitter_ = jitter; }
  CudaKernels& kernels() { return kernels_; }

  void linear_forward(const LinearForward& call) override;
  void linear_backward_input(const LinearBackwardInput& call) override;
  void linear_backward_weight(const LinearBackwardWeight& call) override;
  void fused_linear_cross_entropy(const FusedLinearCrossEntropy& call) override;
  void expert_linear_forward(const ExpertLinearForward& call) override;
  void expert_linear_backward_input(const ExpertLinearBackwardInput& call) override;
  void expert_linear_backward_weight(const ExpertLinearBackwardWeight& call) override;
  void add_bias_residual(const AddBiasResidual& call) override;
  void embedding_forward(const EmbeddingForward& call) override;
  void embedding_backward(const EmbeddingBackward& call) override;
  void norm_forward(const NormForward& call) override;
  void norm_backward(const NormBackward& call) override;
  void gelu_forward(const GeluForward& call) override;
  void swiglu_forward(const SwigluForward& call) override;
  void swiglu_backward(const SwigluBackward& call) override;
  void rope(const Rope& call) override;
  void attention_forward(const AttentionForward& call) override;
  void attention_backward(const AttentionBackward& call) override;
  void dropout(const Dropout& call) override;
  void cross_entropy(const CrossEntropy& call) override;
  void cross_entropy_maxima(const CrossEntropyMaxima& call) override;
  void cross_entropy_sums(const CrossEntropySums& call) override;
  void cross_entropy_from_sums(const CrossEntropyFromSums& call) override;
  void sum_scalar(const SumScalar& call) override;
  void sum_of_squares(const SumOfSquares& call) override;
  void adamw(const AdamW& call) override;
  void absolute_maximum(const AbsoluteMaximum& call) override;
  void quantize(const Quantize& call) override;
  void route_tokens(const RouteTokens& call) override;
  void balance_loss(const BalanceLoss& call) override;
  void route_tokens_backward(const RouteTokensBackward& call) override;
  void plan_experts(const PlanExperts& call) override;
  void permute_rows(const PermuteRows& call) override;
  void unpermute_rows(const UnpermuteRows& call) override;
  void unpermute_rows_backward(const UnpermuteRowsBackward& call) override;
  void copy_columns(const CopyColumns& call) override;
  void add(const Tensor& to, const Tensor& from) override;
  void scale(const Tensor& values, double factor) override;
  void fill_bytes(const Tensor& values, unsigned char byte) override;
  void copy(const Tensor& to, const Tensor& from) override;

 private:
  void disturb();
  CudaKernels& next_kernels();
  MatrixProducts& next_products();

  const KernelPlace place_;
  const CudaStream side_;
  Jitter jitter_;
  uint64_t issued_ = 0;
  CudaKernels kernels_;
  MatrixProducts products_;
};

}  // namespace dettax
