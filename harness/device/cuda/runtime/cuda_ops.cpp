#include "harness/device/cuda/runtime/cuda_ops.h"

namespace dettax {

CudaOps::CudaOps(const KernelPlace& place, CudaStream side,
                 const std::function<Buffer(size_t)>& allocate)
    : place_(place), side_(side), kernels_(place, allocate), products_(place, kernels_, allocate) {}

// Draws are of the operation's number alone: the same seed disturbs the same step alike.
void CudaOps::disturb() {
  if (!jitter_.on()) return;
  constexpr int64_t kMostCycles = 200'000;  // some 0.1 ms
  constexpr uint32_t kBlocks = 1;
  constexpr uint32_t kCycles = 2;
  const uint64_t number = issued_++;
  hold_multiprocessors(side_,
                       jitter_.up_to(int64_t{2} * place_.multiprocessors, kBlocks, 0, number),
                       jitter_.up_to(kMostCycles, kCycles, 0, number));
}

CudaKernels& CudaOps::next_kernels() {
  disturb();
  return kernels_;
}
MatrixProducts& CudaOps::next_products() {
  disturb();
  return products_;
}

void CudaOps::linear_forward(const LinearForward& call) { next_products().linear_forward(call); }
void CudaOps::linear_backward_input(const LinearBackwardInput& call) {
  next_products().linear_backward_input(call);
}
void CudaOps::linear_backward_weight(const LinearBackwardWeight& call) {
  next_products().linear_backward_weight(call);
}
void CudaOps::fused_linear_cross_entropy(const FusedLinearCrossEntropy& call) {
  next_products().fused_linear_cross_entropy(call);
}
void CudaOps::expert_linear_forward(const ExpertLinearForward& call) {
  next_products().expert_linear_forward(call);
}
void CudaOps::expert_linear_backward_input(const ExpertLinearBackwardInput& call) {
  next_products().expert_linear_backward_input(call);
}
void CudaOps::expert_linear_backward_weight(const ExpertLinearBackwardWeight& call) {
  next_products().expert_linear_backward_weight(call);
}
void CudaOps::add_bias_residual(const AddBiasResidual& call) {
  next_kernels().add_bias_residual(call);
}
void CudaOps::embedding_forward(const EmbeddingForward& call) {
  next_kernels().embedding_forward(call);
}
void CudaOps::embedding_backward(const EmbeddingBackward& call) {
  next_kernels().embedding_backward(call);
}
void CudaOps::norm_forward(const NormForward& call) { next_kernels().norm_forward(call); }
void CudaOps::norm_backward(const NormBackward& call) { next_kernels().norm_backward(call); }
void CudaOps::gelu_forward(const GeluForward& call) { next_kernels().gelu_forward(call); }
void CudaOps::swiglu_forward(const SwigluForward& call) { next_kernels().swiglu_forward(call); }
void CudaOps::swiglu_backward(const SwigluBackward& call) { next_kernels().swiglu_backward(call); }
void CudaOps::rope(const Rope& call) { next_kernels().rope(call); }
void CudaOps::attention_forward(const AttentionForward& call) {
  next_kernels().attention_forward(call);
}
void CudaOps::attention_backward(const AttentionBackward& call) {
  next_kernels().attention_backward(call);
}
void CudaOps::dropout(const Dropout& call) { next_kernels().dropout(call); }
void CudaOps::cross_entropy(const CrossEntropy& call) { next_kernels().cross_entropy(call); }
void CudaOps::cross_entropy_maxima(const CrossEntropyMaxima& call) {
  next_kernels().cross_entropy_maxima(call);
}
void CudaOps::cross_entropy_sums(const CrossEntropySums& call) {
  next_kernels().cross_entropy_sums(call);
}
void CudaOps::cross_entropy_from_sums(const CrossEntropyFromSums& call) {
  next_kernels().cross_entropy_from_sums(call);
}
void CudaOps::sum_scalar(const SumScalar& call) { next_kernels().sum_scalar(call); }
void CudaOps::sum_of_squares(const SumOfSquares& call) { next_kernels().sum_of_squares(call); }
void CudaOps::adamw(const AdamW& call) { next_kernels().adamw(call); }
void CudaOps::absolute_maximum(const AbsoluteMaximum& call) {
  next_kernels().absolute_maximum(call);
}
void CudaOps::quantize(const Quantize& call) { next_kernels().quantize(call); }
void CudaOps::route_tokens(const RouteTokens& call) { next_kernels().route_tokens(call); }
void CudaOps::balance_loss(const BalanceLoss& call) { next_kernels().balance_loss(call); }
void CudaOps::route_tokens_backward(const RouteTokensBackward& call) {
  next_kernels().route_tokens_backward(call);
}
void CudaOps::plan_experts(const PlanExperts& call) { next_kernels().plan_experts(call); }
void CudaOps::permute_rows(const PermuteRows& call) { next_kernels().permute_rows(call); }
void CudaOps::unpermute_rows(const UnpermuteRows& call) { next_kernels().unpermute_rows(call); }
void CudaOps::unpermute_rows_backward(const UnpermuteRowsBackward& call) {
  next_kernels().unpermute_rows_backward(call);
}
void CudaOps::copy_columns(const CopyColumns& call) { next_kernels().copy_columns(call); }
void CudaOps::add(const Tensor& to, const Tensor& from) { next_kernels().add(to, from); }
void CudaOps::scale(const Tensor& values, double factor) { next_kernels().scale(values, factor); }
void CudaOps::fill_bytes(const Tensor& values, unsigned char byte) {
  next_kernels().fill_bytes(values, byte);
}
void CudaOps::copy(const Tensor& to, const Tensor& from) { next_kernels().copy(to, from); }

}  // namespace dettax
