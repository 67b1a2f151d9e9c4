#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "harness/base/random.h"
#include "harness/device/expert_calls.h"
#include "harness/device/number_format.h"
#include "harness/device/sum_order.h"
#include "harness/device/tensor.h"
#include "harness/device/token_places.h"
#include "harness/plan/knobs.h"

namespace dettax {

// The operations of a transformer training step. Every call is given its variant; nothing is remembered between calls except plans
// that depend on shapes alone. Shapes: M = rows = samples * tokens of a sample; letters as in each comment. Tensors are dense and
// row-major. All throw Error{internal} on shapes that do not fit, since shapes are the trainer's business.
//
// `samples` tells where the rows of one logical sample (sequence) end: rows [s * M / samples, (s + 1) * M / samples) are sample s.
// Order::invariant sums first inside each sample in row order and then over samples by a binary tree aligned at sample 0
// ((0+1)+(2+3))+..., which is the same for one micro-batch of 8 and for two of 4 that are added afterwards.
//
// Gradients are accumulated: with `accumulate` the result is old + whole sum of this call, the sum being complete before it is added
// under Order::invariant; without it the old content is not read.

// Products of matrices (also those of experts) say two things that a CPU, whose products have one order, passes over. `operands`: the
// format they may round what they read to; f32: none. `order`: what a library may choose the order of a result's sum by: arrival
// anything, ordered the shapes of the call, invariant only what does not change with the number of rows. Likewise `may_fuse_gelu`: the
// trainer recomputes no gelu, so that its bits need not be those of gelu_forward.
enum class Epilogue { none, bias, bias_gelu, bias_residual, residual };

// y[M,N] = x[M,K] * w[N,K]^T, then the epilogue: + bias[N]; gelu (tanh form) of that, the value before it kept in pre_activation[M,N];
// + residual[M,N]. y may be the same memory as residual.
struct LinearForward {
  Tensor y, x, w, bias, residual, pre_activation;
  Epilogue epilogue = Epilogue::none;
  bool dynamic_schedule = false;
  NumberFormat operands = NumberFormat::f32;
  Order order = Order::invariant;
  bool may_fuse_gelu = false;
};

// dx[M,K] (+)= dy[M,N] * w[N,K]. If gelu_pre_activation is given: dx is further multiplied by gelu'(gelu_pre_activation[M,K]).
struct LinearBackwardInput {
  Tensor dx, dy, w, gelu_pre_activation;
  bool accumulate = false;
  bool dynamic_schedule = false;
  NumberFormat operands = NumberFormat::f32;
  Order order = Order::invariant;
  bool may_fuse_gelu = false;
};

// dw[N,K] (+)= dy[M,N]^T * x[M,K];  dbias[N] (+)= column sums of dy, if given.
struct LinearBackwardWeight {
  Tensor dw, dbias, dy, x;
  bool accumulate = true;
  int64_t samples = 1;
  SumOrder sum;
  NumberFormat operands = NumberFormat::f32;
};

// y[M,N] += bias[N] (if given) + residual[M,N] (if given): what a LinearForward's epilogue does where ranks' results have to be added
// between the two.
struct AddBiasResidual {
  Tensor y, bias, residual;
};

// Where a token table has only some of the vocabulary: ids first_id, first_id + 1, ... Other tokens are another rank's.
struct TablePart {
  int64_t first_id = 0;
  bool partial =
      false;  // other tokens are no error: their rows of y are 0 (before positions), their rows of dy are passed over
};

// y[M,C] = table[tokens[M],C] + position_table[its place in the sequence,C] (if given).
struct EmbeddingForward {
  Tensor y, tokens, table, position_table;
  int64_t samples = 1;
  TablePart part{};
  TokenPlaces places{};
};

// dtable[V,C] += rows of dy[M,C] by token; dposition_table[T,C] += dy summed over samples (if given).
// generic: sort-and-accumulate as a framework's index_put does it, in one order, or invariant where that is asked for.
struct EmbeddingBackward {
  Tensor dtable, dposition_table, dy, tokens;
  int64_t samples = 1;
  SumOrder sum;
  bool generic = false;
  TablePart part{};
  TokenPlaces places{};
};

enum class Norm { layer, rms };

// y = (x - mean) * rstd * gamma + beta over each row (layer; beta may be absent) or x * rstd * gamma (rms). mean[M] (layer only) and
// rstd[M] are kept for the backward pass.
struct NormForward {
  Tensor y, mean, rstd, x, gamma, beta;
  Norm kind = Norm::layer;
  double epsilon = 1e-5;
};

// dx[M,C] (+)= gradient through the norm; dgamma[C], dbeta[C] (+)= sums over rows.
struct NormBackward {
  Tensor dx, dgamma, dbeta, dy, x, mean, rstd, gamma;
  Norm kind = Norm::layer;
  bool accumulate_dx = false;
  bool accumulate_parameters = true;
  int64_t samples = 1;
  SumOrder sum;
};

// y = gelu(x), in the tanh form, with the bits of the epilogue bias_gelu.
struct GeluForward {
  Tensor y, x;
};

// y[M,F] = silu(x[M,0:F]) * x[M,F:2F].
struct SwigluForward {
  Tensor y, x;
};
struct SwigluBackward {
  Tensor dx, dy, x;
};

// Rotates pairs (i, i + head_width/2) of each query and key head of qkv[M, (Hq + 2 Hkv) * head_width] in place by
// position * theta^(-2 i / head_width); backward rotates gradients the other way.
struct Rope {
  Tensor qkv;
  int64_t samples = 1, heads = 1, key_value_heads = 1;
  double theta = 10000.0;
  bool backward = false;
  TokenPlaces places{};
};

// Keys and values of tokens that are elsewhere, [samples * their tokens, 2 Hkv * head_width], key heads before value heads; and, of
// each sample, which of the queries meet which of them: all of these keys stand before all of these queries, so nothing is masked.
struct AttentionBlock {
  Tensor keys_values;
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;
};

// Causal attention inside each sample. qkv[M, (Hq + 2 Hkv) * head_width]: query heads, key heads, value heads; query head h uses
// key/value head h / (Hq / Hkv). out[M, Hq * head_width]; log_sum_exp[samples, Hq, T]. No T x T matrix exists in memory.
// With a block: out and log_sum_exp of its queries, which are those over the keys of earlier calls, become those over its keys as
// well. Bits depend on the order of calls.
struct AttentionForward {
  Tensor out, log_sum_exp, qkv;
  int64_t samples = 1, heads = 1, key_value_heads = 1;
  double scale = 1.0;
  AttentionBlock block{};
};

// dqkv is written whole. `arrival` adds dQ as key blocks finish; `ordered` (and `invariant`, the same here) has one owner for each.
// With a block, out and log_sum_exp being those over all keys: dQ of its queries is added to, and the block's part of dK and dV is
// written to its rows of dkeys_values.
struct AttentionBackward {
  Tensor dqkv, dout, out, log_sum_exp, qkv;
  int64_t samples = 1, heads = 1, key_value_heads = 1;
  double scale = 1.0;
  SumOrder sum;
  AttentionBlock block{};
  Tensor dkeys_values = {};
};

// Some neighbouring columns of one matrix to those of another, or added to them.
struct CopyColumns {
  Tensor to, from;
  int64_t to_column = 0, from_column = 0, columns = 0;
  bool add = false;
};

// y = x * mask / (1 - p), the mask drawn from (key, first_element + index): the same for every layout when first_element is the
// element's index in the global batch. y may be x. Backward is the same call on the gradient.
struct Dropout {
  Tensor y, x;
  double probability = 0;
  RandomKey key;
  uint64_t step = 0;
  uint64_t first_element = 0;
};

// losses[M] = -log softmax(logits[M,V])[target]; logits become gradient_scale * (softmax - one_hot). Columns from `vocabulary` on
// (padding) count as minus infinity and get gradient 0. generic: the target column is fetched and corrected by separate gather and
// scatter passes over an index list, as a framework does it.
struct CrossEntropy {
  Tensor losses, logits, targets;
  int64_t vocabulary = 0;
  double gradient_scale = 1.0;
  bool generic = false;
};

// The same over a vocabulary of which every rank of a group has neighbouring ids, in three calls with ranks meeting in between.
// Columns [0, vocabulary) of logits[M,V] are the ids from first_id on; the rest, possibly all, is padding.
// maxima[M] = the largest logit of each row; ranks gather them.
struct CrossEntropyMaxima {
  Tensor maxima, logits;
  int64_t vocabulary = 0;
};
// Maxima[R,M] of all ranks. logits become e = exp(logit - maximum); sums[0,M] = their sums; sums[1,M] = the target's logit - maximum,
// 0 where the target is another rank's. Ranks add them up.
struct CrossEntropySums {
  Tensor sums, logits, maxima, targets;
  int64_t first_id = 0, vocabulary = 0;
  bool generic = false;
};
// losses[M] = log(sums[0]) - sums[1]; logits become gradient_scale * (e / sums[0] - one_hot).
struct CrossEntropyFromSums {
  Tensor losses, logits, sums, targets;
  int64_t first_id = 0, vocabulary = 0;
  double gradient_scale = 1.0;
  bool generic = false;
};

// Head and loss in one, in chunks of rows, so that the logits never exist whole: losses[M]; dx[M,C] is written; dw[V,C] (+)=.
// `logits` is scratch of at least fused_loss_chunk_rows(M, V) * V floats.
struct FusedLinearCrossEntropy {
  Tensor losses, dx, dw, x, w, targets, logits;
  int64_t vocabulary = 0;
  double gradient_scale = 1.0;
  bool accumulate = true;
  int64_t samples = 1;
  SumOrder sum;
  bool generic = false;
  NumberFormat operands = NumberFormat::f32;
};
// Rows of logits alive at once. Under Order::invariant a chunk holds whole samples. Shared with the memory estimate.
int64_t fused_loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t samples, Order order);

// result[1] = sum of values[n] * scale. In f32 throughout.
struct SumScalar {
  Tensor result, values;
  double scale = 1.0;
  int64_t samples = 1;
  SumOrder sum;
};

// result[1] (+)= sum of squares of values. Chunks of 4 Ki elements, combined as `sum` says.
struct SumOfSquares {
  Tensor result, values;
  bool accumulate = false;
  SumOrder sum;
};

// AdamW with decoupled decay, one pass over memory:
//   g = gradient * gradient_scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
//   w -= learning_rate * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + epsilon) + decay * w)
struct AdamW {
  Tensor weights, gradients, first_moment, second_moment;
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double gradient_scale = 1.0;
  int64_t step = 1;  // t, from 1
};

// result[1] = the largest magnitude among values; NaN if there is one. No order effect.
struct AbsoluteMaximum {
  Tensor result, values;
};

// Which elements share a scale: all, or `block` neighbours in a row, or `block` neighbours in a column (the last block of a row or
// column may be shorter). Blocks lie along the dimension that a matrix product sums over.
enum class ScaleGroup { none, tensor, along_rows, along_columns };

// y = the numbers of `format` nearest to x times a scale, times its inverse: f32 numbers that the narrow format and its scale can
// hold. y may be x.
//  none           scale 1
//  tensor         the power of two that brings amax[1] just below the largest number of the format
//  along_*        each block's own: with e8m0 the power of two of its largest magnitude less that of the format's (OCP MX), with e4m3
//                 its largest magnitude over the format's largest, both after a power of two for the whole tensor that brings amax[1]
//                 to the largest such product (nvfp4)
// A group with an infinity or a NaN becomes NaN throughout.
struct Quantize {
  Tensor y, x;
  NumberFormat format = NumberFormat::bf16;
  ScaleGroup group = ScaleGroup::none;
  int64_t block = 0;
  NumberFormat scale_format = NumberFormat::e8m0;
  Tensor amax = {};  // where a scale belongs to the whole tensor
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual void linear_forward(const LinearForward& call) = 0;
  virtual void linear_backward_input(const LinearBackwardInput& call) = 0;
  virtual void linear_backward_weight(const LinearBackwardWeight& call) = 0;
  virtual void add_bias_residual(const AddBiasResidual& call) = 0;
  virtual void embedding_forward(const EmbeddingForward& call) = 0;
  virtual void embedding_backward(const EmbeddingBackward& call) = 0;
  virtual void norm_forward(const NormForward& call) = 0;
  virtual void norm_backward(const NormBackward& call) = 0;
  virtual void gelu_forward(const GeluForward& call) = 0;
  virtual void swiglu_forward(const SwigluForward& call) = 0;
  virtual void swiglu_backward(const SwigluBackward& call) = 0;
  virtual void rope(const Rope& call) = 0;
  virtual void attention_forward(const AttentionForward& call) = 0;
  virtual void attention_backward(const AttentionBackward& call) = 0;
  virtual void dropout(const Dropout& call) = 0;
  virtual void cross_entropy(const CrossEntropy& call) = 0;
  virtual void cross_entropy_maxima(const CrossEntropyMaxima& call) = 0;
  virtual void cross_entropy_sums(const CrossEntropySums& call) = 0;
  virtual void cross_entropy_from_sums(const CrossEntropyFromSums& call) = 0;
  virtual void fused_linear_cross_entropy(const FusedLinearCrossEntropy& call) = 0;
  virtual void sum_scalar(const SumScalar& call) = 0;
  virtual void sum_of_squares(const SumOfSquares& call) = 0;
  virtual void adamw(const AdamW& call) = 0;
  virtual void absolute_maximum(const AbsoluteMaximum& call) = 0;
  virtual void quantize(const Quantize& call) = 0;
  virtual void route_tokens(const RouteTokens& call) = 0;
  virtual void balance_loss(const BalanceLoss& call) = 0;
  virtual void route_tokens_backward(const RouteTokensBackward& call) = 0;
  virtual void plan_experts(const PlanExperts& call) = 0;
  virtual void permute_rows(const PermuteRows& call) = 0;
  virtual void unpermute_rows(const UnpermuteRows& call) = 0;
  virtual void unpermute_rows_backward(const UnpermuteRowsBackward& call) = 0;
  virtual void expert_linear_forward(const ExpertLinearForward& call) = 0;
  virtual void expert_linear_backward_input(const ExpertLinearBackwardInput& call) = 0;
  virtual void expert_linear_backward_weight(const ExpertLinearBackwardWeight& call) = 0;
  virtual void add(const Tensor& to, const Tensor& from) = 0;   // to += from
  virtual void scale(const Tensor& values, double factor) = 0;  // values *= factor
  virtual void fill_bytes(const Tensor& values,
                          unsigned char byte) = 0;  // every byte; 0xFF makes NaNs of floats
  virtual void copy(const Tensor& to, const Tensor& from) = 0;
  virtual void copy_columns(const CopyColumns& call) = 0;
};

}  // namespace dettax
