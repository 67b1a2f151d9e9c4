// The deterministic twin of weight_gradient_arrival.cpp, ordered and invariant: a tile has one owner,
// which adds its chunks one after the other.

#include <algorithm>
#include <atomic>

#include "harness/device/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/weight_gradient_ordered.cpp"
#include "harness/device/cpu/targets.h"
#include "hwy/foreach_target.h"
// What follows is read once for each target.
#include "harness/device/cpu/weight_gradient_chunks-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

class OrderedWeightGradient {
 public:
  OrderedWeightGradient(Team& team, GemmState& state, const WeightGradientCall& call, int64_t chunk)
      : state_(state),
        chunks_(team, state, call, chunk, chunk),
        group_(chunks_.largest_group(kMaxGroup)) {
    grow_local(state, group_, chunk);
  }

  void run() {
    chunks_.team.run([this](int thread) {
      for (int64_t panel = 0; panel < chunks_.panels(); panel += chunks_.panel_block) {
        const int64_t last = std::min(chunks_.panels(), panel + chunks_.panel_block);
        for (int64_t chunk = 0; chunk < chunks_.count; ++chunk) add(thread, panel, last, chunk);
      }
    });
  }

 private:
  static constexpr int64_t kMaxGroup = 8;

  void add(int thread, int64_t panel, int64_t last, int64_t chunk) {
    const WeightGradientCall& call = chunks_.call;
    chunks_.pack_shared(thread, panel, last, chunk, chunks_.shared);
    if (thread == 0) next_.store(0, std::memory_order_relaxed);
    chunks_.team.barrier();
    const TileGrid grid{chunks_.a_panels(), last - panel, group_};
    for_each_portion(Portions(grid, thread, chunks_.team.size(), call.dynamic ? &next_ : nullptr),
                     [&](const Portion& now, const Portion& next) {
                       add_portion(now, next, panel, chunk,
                                   state_.local[static_cast<size_t>(thread)].floats(0));
                     });
    chunks_.team.barrier();
  }

  HWY_INLINE void add_portion(const Portion& now, const Portion& next, int64_t panel, int64_t chunk,
                              float* local) {
    const WeightGradientCall& call = chunks_.call;
    const int64_t steps = chunks_.tokens_of(chunk);
    const int64_t token = chunk * chunks_.chunk;
    const bool add = call.accumulate || chunk > 0;
    pack_panels<kMr>(call.a, now.streamed, now.streamed + now.count, token, steps, local);
    if (panel == 0 && now.first == 0 && call.line_sums != nullptr) {
      chunks_.add_group_sums(local, steps, now.streamed, now.count, add);
    }
    Lookahead ahead(call.a, next.streamed * kMr, next.count * kMr, token, steps, local);
    for (int64_t b = now.first; b < now.last; ++b) {
      for (int64_t a = 0; a < now.count; ++a) {
        owned_tile(local + a * steps * kMr, chunks_.shared + b * steps * kNr, steps,
                   (now.streamed + a) * kMr, (panel + b) * kNr, add, ahead);
      }
    }
  }

  HWY_INLINE void owned_tile(const float* a, const float* b, int64_t steps, int64_t row,
                             int64_t column, bool add, Lookahead& ahead) {
    HWY_ALIGN float sums[kTreeLevels][kTileFloats];
    const int rows = chunks_.rows_from(row);
    if (add) prefetch_tile(chunks_.call.c, chunks_.call.c_stride, row, column, rows);
    if (chunks_.call.order == Order::invariant) {
      const WeightGradientCall& call = chunks_.call;
      sum_as_tree(
          call.samples,
          [&](int64_t s, int pending, int merges) {
            const int64_t begin = call.sample_begin(s);
            const int64_t sample = call.sample_begin(s + 1) - begin;
            chain(rows, sample, a + begin * kMr, b + begin * kNr, sums[pending],
                  {.ahead = ahead.take(sample), .merges = merges});
          },
          [&](int from, int into) { add_tile(sums[from], sums[into]); });
    } else {
      chain(rows, steps, a, b, sums[0], {.ahead = ahead.take(steps)});
    }
    chunks_.store_tile(sums[0], row, column, rows, add);
  }

  GemmState& state_;
  Chunks chunks_;
  int64_t group_;
  std::atomic<int64_t> next_{0};
};

void weight_gradient_in_order_on_target(Team& team, GemmState& state,
                                        const WeightGradientCall& call, int64_t chunk) {
  OrderedWeightGradient(team, state, call, chunk).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(weight_gradient_in_order_on_target);

void weight_gradient_in_order(Team& team, GemmState& state, const WeightGradientCall& call,
                              int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(weight_gradient_in_order_on_target)(team, state, call, chunk);
}

}  // namespace dettax
#endif
