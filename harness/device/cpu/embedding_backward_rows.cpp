// Sums of rows of dy for embedding backward, 64 columns at a time.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "harness/device/cpu/embedding_backward.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/embedding_backward_rows.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// More than the levels of a tree over 2^31 samples.
constexpr int kTreeDepth = 33;
constexpr size_t kGroups = 4;  // of 16 lanes, held in registers while rows are added

// Calls f(groups, access, column) over the columns, 64 at a time and then 16.
template <class F>
HWY_INLINE void for_each_columns(const RowSum& r, F f) {
  size_t c = r.begin;
  for (; c + kGroups * kLanes <= r.end; c += kGroups * kLanes) {
    f(std::integral_constant<size_t, kGroups>(), Whole(), c);
  }
  for (; c + kLanes <= r.end; c += kLanes) f(std::integral_constant<size_t, 1>(), Whole(), c);
  if (c < r.end) f(std::integral_constant<size_t, 1>(), Rest{r.end - c}, c);
}

HWY_INLINE const float* row_at(const RowSum& r, int64_t k) {
  return r.dy + (r.gathered ? k : r.positions[k]) * r.width;
}

// One chain over the positions, then added to the row.
void add_chain(const RowSum& r) {
  for_each_columns(r, [&](auto groups, auto access, size_t column) {
    constexpr size_t kCount = decltype(groups)::value;
    Lanes total[kCount];
    for (size_t g = 0; g < kCount; ++g) total[g] = set(0.0f);
    for (int64_t k = 0; k < r.count; ++k) {
      const float* from = row_at(r, k) + column;
      for (size_t g = 0; g < kCount; ++g) {
        total[g] = add(total[g], access.read(from + g * kLanes));
      }
    }
    for (size_t g = 0; g < kCount; ++g) {
      float* to = r.to + column + g * kLanes;
      access.write(add(access.read(to), total[g]), to);
    }
  });
}

// Partial sums of the tree over samples, as a stack: entry d and d - 1 meet at level meet[d], and
// levels fall from the bottom to the top. Samples without this token are skipped: they would add
// +0, which changes nothing, since a chain that begins with +0 never gives -0.
template <size_t kCount>
struct TreeStack {
  Lanes sum[kTreeDepth][kCount];
  int meet[kTreeDepth];
  int64_t last_sample = 0;
  int depth = 0;

  HWY_INLINE void merge_top() {
    --depth;
    for (size_t g = 0; g < kCount; ++g) {
      sum[depth - 1][g] = add(sum[depth - 1][g], sum[depth][g]);
    }
  }
  // Makes room for the next sample with tokens and returns its entry.
  HWY_INLINE Lanes* push(int64_t sample) {
    const auto apart = static_cast<uint64_t>(sample ^ last_sample);
    const int level = static_cast<int>(std::bit_width(apart));
    while (depth >= 2 && meet[depth - 1] < level) merge_top();
    meet[depth] = level;
    last_sample = sample;
    return sum[depth++];
  }
};

void add_tree(const RowSum& r) {
  for_each_columns(r, [&](auto groups, auto access, size_t column) {
    constexpr size_t kCount = decltype(groups)::value;
    TreeStack<kCount> stack;
    for (int64_t k = 0; k < r.count;) {
      const int64_t sample = r.positions[k] / r.tokens_per_sample;
      const int64_t sample_end = (sample + 1) * r.tokens_per_sample;
      Lanes total[kCount];
      for (size_t g = 0; g < kCount; ++g) total[g] = set(0.0f);
      for (; k < r.count && r.positions[k] < sample_end; ++k) {
        const float* from = row_at(r, k) + column;
        for (size_t g = 0; g < kCount; ++g) {
          total[g] = add(total[g], access.read(from + g * kLanes));
        }
      }
      std::copy_n(total, kCount, stack.push(sample));
    }
    while (stack.depth >= 2) stack.merge_top();
    for (size_t g = 0; g < kCount; ++g) {
      float* to = r.to + column + g * kLanes;
      access.write(add(access.read(to), stack.sum[0][g]), to);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(add_chain);
HWY_EXPORT(add_tree);

RowKernel chain_of_rows() { return HWY_DYNAMIC_DISPATCH(add_chain); }
RowKernel tree_of_rows() { return HWY_DYNAMIC_DISPATCH(add_tree); }

}  // namespace dettax
#endif
