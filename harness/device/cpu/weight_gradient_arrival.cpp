// The fast twin of weight_gradient_ordered.cpp: the chunks of a tile are computed by whoever is free and
// added when they are finished.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "harness/device/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/weight_gradient_arrival.cpp"
#include "harness/device/cpu/targets.h"
#include "hwy/foreach_target.h"
// What follows is read once for each target.
#include "harness/device/cpu/weight_gradient_chunks-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

class ArrivingWeightGradient {
 public:
  // Contributions race only if all chunks of a tile are under way together, so all of them are packed.
  ArrivingWeightGradient(Team& team, GemmState& state, const WeightGradientCall& call,
                         int64_t chunk)
      : state_(state), chunks_(team, state, call, chunk, call.tokens) {
    // An item that is late at the end keeps all others waiting: enough of them to make it short.
    group_ = std::clamp<int64_t>(chunks_.a_panels() * chunks_.count / (24 * team.size()), 1,
                                 chunks_.largest_group(kMaxGroup));
    grow_local(state, group_, chunk);
    const auto places = static_cast<size_t>(groups() * (chunks_.panel_block + 1));
    if (state.places.size() < places) state.places = std::vector<ArrivalPlace>(places);
  }

  void run() {
    chunks_.team.run([this](int thread) {
      for (int64_t panel = 0; panel < chunks_.panels(); panel += chunks_.panel_block) {
        add(thread, panel, std::min(chunks_.panels(), panel + chunks_.panel_block));
      }
    });
  }

 private:
  static constexpr int64_t kMaxGroup = 8;

  int64_t groups() const { return divide_up(chunks_.a_panels(), group_); }

  void add(int thread, int64_t panel, int64_t last) {
    const int threads = chunks_.team.size();
    for (int64_t chunk = 0; chunk < chunks_.count; ++chunk) {
      chunks_.pack_shared(thread, panel, last, chunk,
                          chunks_.shared + chunk * chunks_.chunk * kNr * (last - panel));
    }
    if (thread == 0) {
      next_.store(0, std::memory_order_relaxed);
      for (ArrivalPlace& place : state_.places) place.started = false;
    }
    chunks_.team.barrier();
    const int64_t items = groups() * chunks_.count;
    int64_t own = thread - threads;
    const auto take = [&] {
      return chunks_.call.dynamic ? next_.fetch_add(1, std::memory_order_relaxed) : own += threads;
    };
    for (int64_t item = take(); item < items;) {
      const int64_t after = take();
      arrive(thread, panel, last, item, after < items ? after : item);
      item = after;
    }
    chunks_.team.barrier();
  }

  // Item i is chunk i % count of group i / count, so that threads work on one group together.
  void arrive(int thread, int64_t panel, int64_t last, int64_t item, int64_t after) {
    const int64_t group = item / chunks_.count;
    const int64_t chunk = item % chunks_.count;
    const int64_t steps = chunks_.tokens_of(chunk);
    const int64_t a_first = group * group_;
    const int64_t a_count = std::min(group_, chunks_.a_panels() - a_first);
    const int64_t b_count = last - panel;
    float* local = state_.local[static_cast<size_t>(thread)].floats(0);
    const float* shared = chunks_.shared + chunk * chunks_.chunk * kNr * b_count;
    pack_panels<kMr>(chunks_.call.a, a_first, a_first + a_count, chunk * chunks_.chunk, steps,
                     local);
    if (panel == 0 && chunks_.call.line_sums != nullptr) {
      add_at(place(group, chunks_.panel_block),
             [&](bool add) { chunks_.add_group_sums(local, steps, a_first, a_count, add); });
    }
    Lookahead ahead(chunks_.call.a, after / chunks_.count * group_ * kMr,
                    after == item ? 0 : group_ * kMr, after % chunks_.count * chunks_.chunk,
                    chunks_.tokens_of(after % chunks_.count), local);
    HWY_ALIGN float sums[kMaxGroup][kTileFloats];
    for (int64_t i = 0; i < b_count; ++i) {
      // Threads that start two chunks together do not meet at each tile and pull its lines from
      // each other.
      const int64_t b = (i + chunk) % b_count;
      const int64_t column = (panel + b) * kNr;
      __builtin_prefetch(&place(group, b), 1);
      for (int64_t a = 0; a < a_count; ++a) {
        const int64_t row = (a_first + a) * kMr;
        prefetch_tile(chunks_.call.c, chunks_.call.c_stride, row, column, chunks_.rows_from(row));
        chain(chunks_.rows_from(row), steps, local + a * steps * kMr, shared + b * steps * kNr,
              sums[a], {.ahead = ahead.take(steps)});
      }
      add_at(place(group, b), [&](bool add) {
        for (int64_t a = 0; a < a_count; ++a) {
          const int64_t row = (a_first + a) * kMr;
          chunks_.store_tile(sums[a], row, column, chunks_.rows_from(row), add);
        }
      });
    }
  }

  // One for each group of A panels and each B panel, the last for the group's line sums.
  ArrivalPlace& place(int64_t group, int64_t b) {
    return state_.places[static_cast<size_t>(group * (chunks_.panel_block + 1) + b)];
  }

  // The first contribution replaces what was there unless gradients accumulate.
  template <class Add>
  HWY_INLINE void add_at(ArrivalPlace& place, const Add& add) {
    const std::lock_guard guard(place.lock);
    add(chunks_.call.accumulate || place.started);
    place.started = true;
  }

  GemmState& state_;
  Chunks chunks_;
  int64_t group_ = 1;
  std::atomic<int64_t> next_{0};
};

void weight_gradient_on_arrival_on_target(Team& team, GemmState& state,
                                          const WeightGradientCall& call, int64_t chunk) {
  ArrivingWeightGradient(team, state, call, chunk).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(weight_gradient_on_arrival_on_target);

void weight_gradient_on_arrival(Team& team, GemmState& state, const WeightGradientCall& call,
                                int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(weight_gradient_on_arrival_on_target)(team, state, call, chunk);
}

}  // namespace dettax
#endif
