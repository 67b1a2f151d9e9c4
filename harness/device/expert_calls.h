#pragma once

#include <cstdint>

#include "harness/device/number_format.h"
#include "harness/device/sum_order.h"
#include "harness/device/tensor.h"
#include "harness/device/token_places.h"

namespace dettax {

// The operations of a mixture-of-experts layer. M = rows, S = samples, T = M / S tokens of a sample, E = experts, K = choices of a
// token. What depends on other tokens (load, capacity) is defined within a sample, so that it does not change with the number of
// samples in a micro-batch or on a rank. Where a sample's tokens are spread over ranks, the call is told what the others have.

// probabilities[M,E] = softmax(logits); experts[M,K] = those with the K largest, falling, the lower index first among equals;
// weights[M,K] = their probabilities, divided by their sum if `normalised`. `balanced`: choice k of token t of a sample is expert
// (t K + k) mod E whatever the logits, so that speed does not depend on the data.
struct RouteTokens {
  Tensor probabilities, experts, weights, logits;
  int64_t samples = 1;
  bool balanced = false, normalised = true;
  TokenPlaces places = {};
};

// The load-balance loss of a sample, as Switch and DeepSeek-V3 define it: sum over experts of f_e P_e, with P_e the mean probability
// and f_e = E / (K T) times the tokens that chose e. losses[M] += scale * sum over e of f_e probabilities[row,e], whose mean is that.
struct BalanceLoss {
  Tensor losses, probabilities, counts;  // counts: of ExpertPlan
  int64_t choices = 1;
  double scale = 0;
  int64_t tokens = 0;  // of a sample, on all ranks, as counts are then; 0: those here
};

// dlogits[M,E] from dweights[M,K], and from balance_scale times the sum over tokens of the balance loss. f_e has no gradient.
struct RouteTokensBackward {
  Tensor dlogits, dweights, probabilities, experts, weights, counts;
  bool normalised = true;
  double balance_scale = 0;
  int64_t tokens = 0;  // as above
};

// Which row of the experts' input each choice of a token becomes. Rows of one expert are neighbours.
struct ExpertPlan {
  Tensor slots;    // i32 [M,K]: the row; -1 where the choice was dropped
  Tensor sources;  // i32 [M*K], the inverse: token * K + choice; -1 behind the last row
  Tensor
      segments;  // i32 [E,S+1]: rows segments[e,s] .. segments[e,s+1] - 1 are of expert e and, but for `arrival`, of sample s
  Tensor counts;  // i32 [S,E]: choices before any was dropped
};

// A sample's choices of one expert beyond `capacity` (0: no limit) are dropped, in order of position, under every order alike.
// Rows of an expert stand in order of position; under `arrival` threads claim them as they come.
struct PlanExperts {
  ExpertPlan plan;
  Tensor experts;  // i32 [M,K]
  int64_t capacity = 0;
  SumOrder sum;
  // i32 [2S,E], if given: choices of each expert that come before those of the first and of the second half of a sample's rows, on
  // whatever rank. Used up.
  Tensor before = {};
};

// y[row,C] = x[index[row] / divisor]: a token's row for each of its choices where index is ExpertPlan::sources and divisor K. A row
// with a negative index is left alone.
struct PermuteRows {
  Tensor y, x, index;
  int64_t divisor = 1;
};

// y[M,C] = sum over choices of weights[M,K] (1 if absent) * rows[slot,C], in order of choice, then + residual[M,C] if given (which may
// be y). `arrival` adds rows to tokens as threads come to them. generic: weighted rows, then index_put as a framework does it,
// whatever the order asked for.
struct UnpermuteRows {
  Tensor y, rows, weights, residual;
  ExpertPlan plan;
  SumOrder sum;
  bool generic = false;
};

// drows[slot] = weights * dy[token]; dweights[M,K] = dy[token] . rows[slot], 0 where the choice was dropped.
struct UnpermuteRowsBackward {
  Tensor drows, dweights, dy, rows, weights;
  ExpertPlan plan;
};

// Linear layers of all experts: expert e has w[e] of w[E,N,K] and the rows that `segments` (of an ExpertPlan) gives it.
struct ExpertLinearForward {
  Tensor y, x, w, segments;
  bool dynamic_schedule = false;
  NumberFormat operands = NumberFormat::f32;
  Order order = Order::invariant;
};
struct ExpertLinearBackwardInput {
  Tensor dx, dy, w, segments;
  bool dynamic_schedule = false;
  NumberFormat operands = NumberFormat::f32;
  Order order = Order::invariant;
};
// The samples of `segments` are those of Order::invariant.
struct ExpertLinearBackwardWeight {
  Tensor dw, dy, x, segments;
  bool accumulate = true;
  SumOrder sum;
  NumberFormat operands = NumberFormat::f32;
};

}  // namespace dettax
