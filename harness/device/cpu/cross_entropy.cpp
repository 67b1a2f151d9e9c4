// Softmax cross-entropy in place, one row at a time: the maximum (a read from memory), then exp and
// sum, then the scaling (both from the L2 cache, where a row of 50,000 logits fits).

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/cross_entropy.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// logits[width] become factor * softmax - factor at the target; columns from vocabulary on become 0.
// Returns the loss.
float cross_entropy_row(float* logits, size_t vocabulary, size_t width, size_t target,
                        float factor) {
  const float maximum = row_maximum(logits, vocabulary);
  const float at_target = logits[target] - maximum;
  const float total = exp_and_sum<true>(logits, maximum, vocabulary);
  scale_row(logits, factor / total, vocabulary);
  logits[target] -= factor;
  std::fill(logits + vocabulary, logits + width, 0.0f);
  return std::log(total) - at_target;
}

float log_sum_exp_row(float* logits, size_t vocabulary) {
  const float maximum = row_maximum(logits, vocabulary);
  return maximum + std::log(exp_and_sum<false>(logits, maximum, vocabulary));
}

void softmax_row(float* logits, size_t vocabulary, size_t width, float log_sum_exp, float factor) {
  const Lanes m = set(log_sum_exp);
  const Lanes f = set(factor);
  for_each_lanes(vocabulary, [&](auto access, size_t i) {
    access.write(mul(exp_nonpositive(sub(access.read(logits + i), m)), f), logits + i);
  });
  std::fill(logits + vocabulary, logits + width, 0.0f);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(log_sum_exp_row);
HWY_EXPORT(softmax_row);

struct LossRows {
  float* losses;
  float* logits;
  const int32_t* targets;
  int64_t rows, width;
  size_t vocabulary;
  float factor;
};

// One pass over the rows; the target's column is corrected where it is.
void purpose_built(Team& team, const LossRows& a) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(cross_entropy_row);
  team.parallel_for(a.rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      a.losses[r] = kernel(a.logits + r * a.width, a.vocabulary, static_cast<size_t>(a.width),
                           static_cast<size_t>(a.targets[r]), a.factor);
    }
  });
}

// As a framework composes it under deterministic index operations: log-sum-exp, a gather of the
// targets' logits, softmax, a scatter of the correction. exp is computed twice.
void generic(Team& team, const LossRows& a) {
  std::vector<int64_t> index(static_cast<size_t>(a.rows));
  for (int64_t r = 0; r < a.rows; ++r) {
    index[static_cast<size_t>(r)] = r * a.width + a.targets[r];
  }
  std::vector<float> sums(index.size());
  const auto log_sum_exp = HWY_DYNAMIC_DISPATCH(log_sum_exp_row);
  team.parallel_for(a.rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      sums[static_cast<size_t>(r)] = log_sum_exp(a.logits + r * a.width, a.vocabulary);
    }
  });
  for (size_t r = 0; r < index.size(); ++r) a.losses[r] = sums[r] - a.logits[index[r]];
  const auto softmax = HWY_DYNAMIC_DISPATCH(softmax_row);
  team.parallel_for(a.rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      softmax(a.logits + r * a.width, a.vocabulary, static_cast<size_t>(a.width),
              sums[static_cast<size_t>(r)], a.factor);
    }
  });
  for (const int64_t i : index) a.logits[i] -= a.factor;
}

}  // namespace

void CpuOps::cross_entropy(const CrossEntropy& call) {
  const int64_t rows = call.logits.rows();
  const int64_t width = call.logits.columns();
  require_shapes(call);
  const LossRows a{call.losses.f32(),
                   call.logits.f32(),
                   call.targets.i32(),
                   rows,
                   width,
                   static_cast<size_t>(call.vocabulary),
                   static_cast<float>(call.gradient_scale)};
  for (int64_t r = 0; r < rows; ++r) {
    require(a.targets[r] >= 0 && a.targets[r] < call.vocabulary, "cross_entropy (target)");
  }
  if (call.generic) return generic(team_, a);
  purpose_built(team_, a);
}

}  // namespace dettax
#endif
