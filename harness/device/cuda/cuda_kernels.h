#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "harness/device/device.h"
#include "harness/device/ops.h"

struct CUstream_st;  // CUDA's own name for what a cudaStream_t points to

namespace dettax {

using CudaStream = CUstream_st*;

struct KernelPlace {
  CudaStream stream = nullptr;
  int multiprocessors = 1;
};

// sums[N], f32 (+)= column sums of values[M,N]: the gradient of a bias. `samples` as in ops.h.
struct SumColumns {
  Tensor sums, values;
  bool accumulate = false;
  int64_t samples = 1;
  SumOrder sum;
};

// The operations of ops.h that are kernels of our own; products of matrices are a library's and not here. Calls are
// enqueued on one stream. Numbers are f32 or bf16: activations, weights and logits (x, y, dy, dx, gamma, beta, table, ...) of one call
// have one type; sums over rows, statistics, losses and moments are f32.
//
// Order::arrival runs the kernels of namespace `fast`, the others those of `deterministic`, whose order is fixed by the shapes alone:
// neither the number of multiprocessors nor the schedule of blocks has a part in it. Their invariant form is the same kernel with the
// borders of samples kept.
//
// Indices that do not fit (a token beyond its table) cannot throw from a kernel: faults() points at a word of device memory that is
// then not 0; check_faults makes an Error of it.
class CudaKernels {
 public:
  // `allocate` gives device memory, at multiples of 256 bytes; freeing it must wait for kernels enqueued before, as cudaFree does.
  CudaKernels(const KernelPlace& place, std::function<Buffer(size_t)> allocate);

  void add_bias_residual(const AddBiasResidual& call);
  void embedding_forward(const EmbeddingForward& call);
  void embedding_backward(const EmbeddingBackward& call);
  void norm_forward(const NormForward& call);
  void norm_backward(const NormBackward& call);
  void gelu_forward(const GeluForward& call);
  // dx *= gelu'(x): what LinearBackwardInput does where no product ends in it.
  void gelu_backward(const Tensor& dx, const Tensor& x);
  void swiglu_forward(const SwigluForward& call);
  void swiglu_backward(const SwigluBackward& call);
  void rope(const Rope& call);
  void attention_forward(const AttentionForward& call);
  void attention_backward(const AttentionBackward& call);
  void dropout(const Dropout& call);
  void cross_entropy(const CrossEntropy& call);
  void cross_entropy_maxima(const CrossEntropyMaxima& call);
  void cross_entropy_sums(const CrossEntropySums& call);
  void cross_entropy_from_sums(const CrossEntropyFromSums& call);
  void sum_columns(const SumColumns& call);
  void sum_scalar(const SumScalar& call);
  void sum_of_squares(const SumOfSquares& call);
  void adamw(const AdamW& call);
  void absolute_maximum(const AbsoluteMaximum& call);
  void quantize(const Quantize& call);
  void route_tokens(const RouteTokens& call);
  void balance_loss(const BalanceLoss& call);
  void route_tokens_backward(const RouteTokensBackward& call);
  void plan_experts(const PlanExperts& call);
  void permute_rows(const PermuteRows& call);
  void unpermute_rows(const UnpermuteRows& call);
  void unpermute_rows_backward(const UnpermuteRowsBackward& call);
  void add(const Tensor& to, const Tensor& from);
  void scale(const Tensor& values, double factor);
  void fill_bytes(const Tensor& values, unsigned char byte);
  void copy(const Tensor& to, const Tensor& from);  // between f32 and bf16: to the nearest
  void copy_columns(const CopyColumns& call);

  // Adds to lanes[2], in device memory, what harness/base/fingerprint.h defines: rows of `columns` elements lie `stride` apart.
  void add_fingerprint(uint64_t* lanes, const Tensor& tensor, uint64_t first_index,
                       uint64_t stride);
  // *found, in device memory, becomes not 0 if an element is not finite.
  void find_not_finite(uint32_t* found, const Tensor& tensor);

  const uint32_t* faults() const { return static_cast<const uint32_t*>(faults_.data()); }
  static void check_faults(uint32_t word);  // throws Error{internal} that names the operation

 private:
  // Working memory of one call; the next call on the stream may use it again.
  std::byte* workspace(size_t bytes);
  float* workspace_floats(int64_t count);
  uint32_t* fault_word() { return static_cast<uint32_t*>(faults_.data()); }

  KernelPlace place_;
  std::function<Buffer(size_t)> allocate_;
  Buffer workspace_, faults_;
};

// `blocks` that keep other kernels' from half a multiprocessor each, for that many cycles of it.
void hold_multiprocessors(CudaStream stream, int64_t blocks, int64_t cycles);

}  // namespace dettax
