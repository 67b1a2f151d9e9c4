// Softmax cross-entropy over a part of the vocabulary: the passes of cross_entropy.cpp, with ranks
// meeting between them.

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/cross_entropy_parts.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

float maximum_of_row(const float* logits, size_t count) { return row_maximum(logits, count); }

float exponentials_of_row(float* logits, float maximum, size_t count) {
  return exp_and_sum<true>(logits, maximum, count);
}

void gradient_of_row(float* exponentials, float factor, size_t count, size_t width) {
  scale_row(exponentials, factor, count);
  std::fill(exponentials + count, exponentials + width, 0.0f);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(maximum_of_row);
HWY_EXPORT(exponentials_of_row);
HWY_EXPORT(gradient_of_row);

// Column of a row's target, or -1 if it is not among these ids.
struct TargetColumns {
  const int32_t* targets;
  int64_t first_id, vocabulary;
  int64_t of(int64_t row) const {
    const int64_t column = targets[row] - first_id;
    return column >= 0 && column < vocabulary ? column : -1;
  }
};

// Places of all targets that are here, in the logits: what generic index operations work on.
struct IndexList {
  std::vector<int64_t> row, place;
};
IndexList index_list(const TargetColumns& columns, int64_t rows, int64_t width) {
  IndexList list;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t column = columns.of(r);
    if (column < 0) continue;
    list.row.push_back(r);
    list.place.push_back(r * width + column);
  }
  return list;
}

}  // namespace

void CpuOps::cross_entropy_maxima(const CrossEntropyMaxima& call) {
  const int64_t rows = call.logits.rows();
  const int64_t width = call.logits.columns();
  require(call.maxima.count() == rows && call.vocabulary >= 0 && call.vocabulary <= width,
          "cross_entropy_maxima");
  const float* logits = call.logits.f32();
  float* maxima = call.maxima.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(maximum_of_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      maxima[r] = kernel(logits + r * width, static_cast<size_t>(call.vocabulary));
    }
  });
}

void CpuOps::cross_entropy_sums(const CrossEntropySums& call) {
  const int64_t rows = call.logits.rows();
  const int64_t width = call.logits.columns();
  require_shapes(call);
  float* logits = call.logits.f32();
  float* sums = call.sums.f32();
  float* at_target = sums + rows;
  const float* maxima = call.maxima.f32();
  const int64_t ranks = call.maxima.count() / rows;
  const auto maximum_of = [&](int64_t row) {
    float maximum = maxima[row];
    for (int64_t k = 1; k < ranks; ++k) maximum = std::max(maximum, maxima[k * rows + row]);
    return maximum;
  };
  const TargetColumns columns{call.targets.i32(), call.first_id, call.vocabulary};
  if (call.generic) {
    std::fill(at_target, at_target + rows, 0.0f);
    const IndexList list = index_list(columns, rows, width);
    for (size_t i = 0; i < list.row.size(); ++i)
      at_target[list.row[i]] = logits[list.place[i]] - maximum_of(list.row[i]);
  }
  const auto kernel = HWY_DYNAMIC_DISPATCH(exponentials_of_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = logits + r * width;
      const float maximum = maximum_of(r);
      if (!call.generic) {
        const int64_t column = columns.of(r);
        at_target[r] = column < 0 ? 0.0f : row[column] - maximum;
      }
      sums[r] = kernel(row, maximum, static_cast<size_t>(call.vocabulary));
    }
  });
}

void CpuOps::cross_entropy_from_sums(const CrossEntropyFromSums& call) {
  const int64_t rows = call.logits.rows();
  const int64_t width = call.logits.columns();
  require_shapes(call);
  float* logits = call.logits.f32();
  float* losses = call.losses.f32();
  const float* sums = call.sums.f32();
  const auto factor = static_cast<float>(call.gradient_scale);
  const TargetColumns columns{call.targets.i32(), call.first_id, call.vocabulary};
  const auto kernel = HWY_DYNAMIC_DISPATCH(gradient_of_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = logits + r * width;
      losses[r] = std::log(sums[r]) - sums[rows + r];
      kernel(row, factor / sums[r], static_cast<size_t>(call.vocabulary),
             static_cast<size_t>(width));
      const int64_t column = columns.of(r);
      if (column >= 0 && !call.generic) row[column] -= factor;
    }
  });
  if (!call.generic) return;
  for (const int64_t place : index_list(columns, rows, width).place) logits[place] -= factor;
}

}  // namespace dettax
#endif
