// The router behind its linear layer: softmax, the choice of experts, the load-balance loss, and the way back. A warp a token; no sum
// here runs over tokens, so no order can show.

#include <cfloat>

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int64_t kMostExperts = 1024;  // 32 a lane, a bit for each in one word
constexpr int kWarps = kThreads / 32;

struct Router {
  float* probabilities;
  int32_t* experts;
  float* weights;
  const float* logits;
  int64_t rows, expert_count, choices, tokens;
  bool balanced, normalised;
  TokenPlaces places;
};

// Each lane has the experts lane, lane + 32, ...
template <class F>
__device__ void for_own(int64_t experts, const F& f) {
  for (int64_t e = lane_index(); e < experts; e += 32) f(e);
}

__device__ void softmax(const Router& a, int64_t row) {
  const float* logits = a.logits + row * a.expert_count;
  float* p = a.probabilities + row * a.expert_count;
  float maximum = -FLT_MAX;
  for_own(a.expert_count, [&](int64_t e) { maximum = fmaxf(maximum, logits[e]); });
  maximum = warp_max(maximum);
  float total = 0;
  for_own(a.expert_count, [&](int64_t e) { total += expf(logits[e] - maximum); });
  total = warp_sum(total);
  for_own(a.expert_count, [&](int64_t e) { p[e] = expf(logits[e] - maximum) / total; });
}

struct Candidate {
  float value;
  int expert;
};

// The larger one, the lower index among equals; a NaN is never larger, and nothing (-1) is behind all.
__device__ bool better(const Candidate& a, const Candidate& b) {
  if (a.expert < 0 || b.expert < 0) return b.expert < 0 && a.expert >= 0;
  return a.value > b.value || (!(b.value > a.value) && a.expert < b.expert);
}

// The largest among those of this lane that are not in `taken`, then among all lanes.
__device__ Candidate largest_left(const float* p, int64_t experts, uint32_t taken) {
  Candidate best{0, -1};
  for_own(experts, [&](int64_t e) {
    if ((taken >> static_cast<uint32_t>(e / 32) & 1U) != 0) return;
    const Candidate own{p[e], static_cast<int>(e)};
    if (better(own, best)) best = own;
  });
  for (int apart = 1; apart < 32; apart *= 2) {
    const Candidate other{__shfl_xor_sync(kWholeWarp, best.value, apart),
                          __shfl_xor_sync(kWholeWarp, best.expert, apart)};
    if (better(other, best)) best = other;
  }
  return best;
}

__global__ void route(Router a) {
  for (int64_t row = grid_warp(); row < a.rows; row += grid_warps()) {
    softmax(a, row);
    __syncwarp();
    const float* p = a.probabilities + row * a.expert_count;
    int32_t* experts = a.experts + row * a.choices;
    const int64_t position = a.places.position(row % a.tokens, a.tokens);
    uint32_t taken = 0;
    float total = 0;
    for (int64_t k = 0; k < a.choices; ++k) {
      auto expert = static_cast<int>((position * a.choices + k) % a.expert_count);
      if (!a.balanced) expert = largest_left(p, a.expert_count, taken).expert;
      if (expert % 32 == lane_index()) taken |= 1U << static_cast<uint32_t>(expert / 32);
      if (lane_index() == 0) experts[k] = expert;
      total += p[expert];
    }
    __syncwarp();
    if (!a.normalised) total = 1;
    for (int64_t k = lane_index(); k < a.choices; k += 32) {
      a.weights[row * a.choices + k] = p[experts[k]] / total;
    }
  }
}

// scale * f_e of a sample: its choices of e over those that an even load would be.
struct Loads {
  const int32_t* counts;  // [samples, experts]
  int64_t tokens_here, experts;
  double scale, even;
  __device__ float of(int64_t row, int64_t expert) const {
    const auto count = static_cast<double>(counts[row / tokens_here * experts + expert]);
    return static_cast<float>(scale * count / even);
  }
};
Loads loads_of(const Tensor& counts, int64_t rows, int64_t tokens, int64_t choices, double scale) {
  const int64_t here = rows / counts.rows();
  const auto all = static_cast<double>((tokens > 0 ? tokens : here) * choices);
  return {counts.i32(), here, counts.columns(), scale, all / static_cast<double>(counts.columns())};
}

__global__ void add_balance_loss(float* losses, const float* probabilities, int64_t rows,
                                 Loads loads) {
  for (int64_t row = grid_warp(); row < rows; row += grid_warps()) {
    float total = 0;
    for_own(loads.experts, [&](int64_t e) {
      total = fmaf(loads.of(row, e), probabilities[row * loads.experts + e], total);
    });
    total = warp_sum(total);
    if (lane_index() == 0) losses[row] += total;
  }
}

struct RouterGradient {
  float* dlogits;
  const float* dweights;
  const float* probabilities;
  const int32_t* experts;
  const float* weights;
  int64_t rows, expert_count, choices;
  bool normalised;
  Loads loads;
};

// What one token's choices have in common: the sum of the chosen probabilities and that of dweights * weights.
struct ChosenSums {
  float total = 0, inner = 0;
};
__device__ ChosenSums chosen_sums(const RouterGradient& a, int64_t row) {
  if (!a.normalised) return {1.0f, 0.0f};
  ChosenSums sums;
  for (int64_t k = 0; k < a.choices; ++k) {
    const int64_t i = row * a.choices + k;
    sums.total += a.probabilities[row * a.expert_count + a.experts[i]];
    sums.inner += a.dweights[i] * a.weights[i];
  }
  return sums;
}

__global__ void route_back(RouterGradient a) {
  for (int64_t row = grid_warp(); row < a.rows; row += grid_warps()) {
    const ChosenSums sums = chosen_sums(a, row);
    const float* p = a.probabilities + row * a.expert_count;
    const auto dp = [&](int64_t e) {
      float value = a.loads.of(row, e);
      for (int64_t i = row * a.choices; i < (row + 1) * a.choices; ++i) {
        if (a.experts[i] == e) value += (a.dweights[i] - sums.inner) / sums.total;
      }
      return value;
    };
    float inner = 0;
    for_own(a.expert_count, [&](int64_t e) { inner = fmaf(p[e], dp(e), inner); });
    inner = warp_sum(inner);
    for_own(a.expert_count,
            [&](int64_t e) { a.dlogits[row * a.expert_count + e] = p[e] * (dp(e) - inner); });
  }
}

}  // namespace

void CudaKernels::route_tokens(const RouteTokens& call) {
  const int64_t rows = call.logits.rows();
  const int64_t expert_count = call.logits.columns();
  const int64_t choices = call.experts.columns();
  require_shapes(call);
  require(expert_count <= kMostExperts, "route_tokens");
  const Router a{call.probabilities.f32(),
                 call.experts.i32(),
                 call.weights.f32(),
                 call.logits.f32(),
                 rows,
                 expert_count,
                 choices,
                 rows / call.samples,
                 call.balanced,
                 call.normalised,
                 call.places};
  launch(place_.stream, {grid_for(rows, kWarps, place_.multiprocessors)}, route, a);
}

void CudaKernels::balance_loss(const BalanceLoss& call) {
  const int64_t rows = call.probabilities.rows();
  require_shapes(call);
  launch(place_.stream, {grid_for(rows, kWarps, place_.multiprocessors)}, add_balance_loss,
         call.losses.f32(), call.probabilities.f32(), rows,
         loads_of(call.counts, rows, call.tokens, call.choices, call.scale));
}

void CudaKernels::route_tokens_backward(const RouteTokensBackward& call) {
  const int64_t rows = call.probabilities.rows();
  const int64_t expert_count = call.probabilities.columns();
  const int64_t choices = call.experts.columns();
  require_shapes(call);
  const RouterGradient a{call.dlogits.f32(),
                         call.dweights.f32(),
                         call.probabilities.f32(),
                         call.experts.i32(),
                         call.weights.f32(),
                         rows,
                         expert_count,
                         choices,
                         call.normalised,
                         loads_of(call.counts, rows, call.tokens, choices, call.balance_scale)};
  launch(place_.stream, {grid_for(rows, kWarps, place_.multiprocessors)}, route_back, a);
}

}  // namespace dettax
