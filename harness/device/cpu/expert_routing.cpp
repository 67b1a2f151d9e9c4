// The router behind its linear layer: softmax, the choice of experts, the load-balance loss, and the way
// back. No sum here runs over tokens, so no order can show.

#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/expert_routing.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

void softmax_row(float* row, size_t count) {
  const float total = exp_and_sum<true>(row, row_maximum(row, count), count);
  scale_row(row, 1.0f / total, count);
}

// Sum of a * b over a row.
float dot_row(const float* a, const float* b, size_t count) {
  return row_sum(count, [&](auto access, size_t i, const Lanes& partial) {
    return mul_add(access.read(a + i), access.read(b + i), partial);
  });
}

// y = p * (dp - inner), where inner is the sum of p * dp.
void softmax_backward_row(float* y, const float* p, const float* dp, size_t count) {
  const Lanes inner = set(dot_row(p, dp, count));
  for_each_lanes(count, [&](auto access, size_t i) {
    access.write(mul(access.read(p + i), sub(access.read(dp + i), inner)), y + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(softmax_row);
HWY_EXPORT(dot_row);
HWY_EXPORT(softmax_backward_row);

constexpr int64_t kGrain = 16;  // rows

// The largest first, the lower index first among equals. `left` is the row's copy; a NaN is never larger,
// so that even then the experts of a token differ.
void choose_largest(const float* p, std::vector<bool>& taken, int32_t* experts, int64_t choices) {
  taken.assign(taken.size(), false);
  for (int64_t k = 0; k < choices; ++k) {
    size_t best = taken.size();
    for (size_t e = 0; e < taken.size(); ++e) {
      if (!taken[e] && (best == taken.size() || p[e] > p[best])) best = e;
    }
    taken[best] = true;
    experts[k] = static_cast<int32_t>(best);
  }
}

// Tokens of a sample, wherever they are.
int64_t tokens_of_sample(int64_t all, int64_t rows, const Tensor& counts) {
  return all > 0 ? all : rows / counts.rows();
}

void choose_in_turn(int64_t token, int64_t expert_count, int32_t* experts, int64_t choices) {
  for (int64_t k = 0; k < choices; ++k) {
    experts[k] = static_cast<int32_t>((token * choices + k) % expert_count);
  }
}

float chosen_sum(const float* p, const int32_t* experts, int64_t choices) {
  float total = 0;
  for (int64_t k = 0; k < choices; ++k) total += p[experts[k]];
  return total;
}

// f_e of each sample: its choices of e over those that an even load would be.
std::vector<float> loads(const Tensor& counts, int64_t tokens, int64_t choices, double scale) {
  const int64_t experts = counts.columns();
  const double even = static_cast<double>(tokens * choices) / static_cast<double>(experts);
  std::vector<float> load(static_cast<size_t>(counts.count()));
  for (size_t i = 0; i < load.size(); ++i) {
    load[i] = static_cast<float>(scale * static_cast<double>(counts.i32()[i]) / even);
  }
  return load;
}

}  // namespace

void CpuOps::route_tokens(const RouteTokens& call) {
  const int64_t rows = call.logits.rows();
  const int64_t expert_count = call.logits.columns();
  const int64_t choices = call.experts.columns();
  require_shapes(call);
  const int64_t tokens = rows / call.samples;
  const auto softmax = HWY_DYNAMIC_DISPATCH(softmax_row);
  team_.parallel_for(rows, kGrain, false, [&](int64_t begin, int64_t end, int) {
    std::vector<bool> taken(static_cast<size_t>(expert_count));
    for (int64_t r = begin; r < end; ++r) {
      float* p = call.probabilities.f32() + r * expert_count;
      std::memcpy(p, call.logits.f32() + r * expert_count,
                  static_cast<size_t>(expert_count) * sizeof(float));
      softmax(p, static_cast<size_t>(expert_count));
      int32_t* experts = call.experts.i32() + r * choices;
      if (call.balanced) {
        choose_in_turn(call.places.position(r % tokens, tokens), expert_count, experts, choices);
      } else {
        choose_largest(p, taken, experts, choices);
      }
      float* weights = call.weights.f32() + r * choices;
      const float total = call.normalised ? chosen_sum(p, experts, choices) : 1.0f;
      for (int64_t k = 0; k < choices; ++k) weights[k] = p[experts[k]] / total;
    }
  });
}

void CpuOps::balance_loss(const BalanceLoss& call) {
  const int64_t rows = call.probabilities.rows();
  const int64_t experts = call.probabilities.columns();
  require_shapes(call);
  const int64_t tokens = rows / call.counts.rows();
  const std::vector<float> load = loads(
      call.counts, tokens_of_sample(call.tokens, rows, call.counts), call.choices, call.scale);
  const auto dot = HWY_DYNAMIC_DISPATCH(dot_row);
  float* losses = call.losses.f32();
  const float* p = call.probabilities.f32();
  team_.parallel_for(rows, kGrain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      losses[r] +=
          dot(load.data() + r / tokens * experts, p + r * experts, static_cast<size_t>(experts));
    }
  });
}

void CpuOps::route_tokens_backward(const RouteTokensBackward& call) {
  const int64_t rows = call.probabilities.rows();
  const int64_t expert_count = call.probabilities.columns();
  const int64_t choices = call.experts.columns();
  require_shapes(call);
  const int64_t tokens = rows / call.counts.rows();
  const std::vector<float> load = loads(
      call.counts, tokens_of_sample(call.tokens, rows, call.counts), choices, call.balance_scale);
  const auto kernel = HWY_DYNAMIC_DISPATCH(softmax_backward_row);
  team_.parallel_for(rows, kGrain, false, [&](int64_t begin, int64_t end, int) {
    std::vector<float> dp(static_cast<size_t>(expert_count));
    for (int64_t r = begin; r < end; ++r) {
      const float* p = call.probabilities.f32() + r * expert_count;
      const int32_t* experts = call.experts.i32() + r * choices;
      const float* w = call.weights.f32() + r * choices;
      const float* dw = call.dweights.f32() + r * choices;
      std::copy_n(load.begin() + r / tokens * expert_count, expert_count, dp.begin());
      float inner = 0;
      const float total = call.normalised ? chosen_sum(p, experts, choices) : 1.0f;
      for (int64_t k = 0; call.normalised && k < choices; ++k) inner += dw[k] * w[k];
      for (int64_t k = 0; k < choices; ++k) {
        dp[static_cast<size_t>(experts[k])] += (dw[k] - inner) / total;
      }
      kernel(call.dlogits.f32() + r * expert_count, p, dp.data(),
             static_cast<size_t>(expert_count));
    }
  });
}

}  // namespace dettax
#endif
