#include <algorithm>
#include <atomic>
#include <mutex>

#include "harness/device/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/weight_gradient_chunks.cpp"
#include "harness/device/cpu/targets.h"
#include "hwy/foreach_target.h"
// What follows is read once for each target.
#include "harness/device/cpu/gemm_schedule-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

// Sums of kLanes columns of a packed panel over its steps, as a chain from zero.
HWY_INLINE Vf sum_steps(F32 d, const float* panel, int64_t steps) {
  Vf sum = hn::Zero(d);
  for (int64_t k = 0; k < steps; ++k) sum = hn::Add(sum, hn::LoadU(d, panel + k * kMr));
  return sum;
}

// Sum over samples as the binary tree that `samples` ones make in a binary counter: complete pairs
// are merged at once, what is left at the end from the smallest on. `leaf(s, merges)` makes sample
// s and merges it with that many pending sums.
template <class Leaf, class Merge>
HWY_INLINE void sum_as_tree(int64_t samples, const Leaf& leaf, const Merge& merge) {
  int pending = 0;
  for (int64_t s = 0; s < samples; ++s) {
    int merges = 0;
    for (int64_t carry = s; carry & 1; carry >>= 1) ++merges;
    leaf(s, pending, merges);
    pending += 1 - merges;
  }
  for (; pending > 1; --pending) merge(pending - 1, pending - 2);
}

// C[rows of dy^T, columns of x]: x is packed once for all threads, dy by the thread that uses it.
class WeightGradient {
 public:
  WeightGradient(Team& team, GemmState& state, const WeightGradientCall& call, int64_t chunk)
      : team_(team), state_(state), call_(call), chunk_(std::min(chunk, call.tokens)) {
    chunks_ = divide_up(call.tokens, chunk_);
    // Contributions race only if all chunks of a tile are under way together, so all of them are
    // packed.
    const int64_t packed_tokens = arrival() ? call.tokens : chunk_;
    const int64_t panels = divide_up(call.b.lines, kNr);
    panel_block_ = std::clamp<int64_t>(kSharedFloats / (packed_tokens * kNr), 1, panels);
    panel_block_ = divide_up(panels, divide_up(panels, panel_block_));
    group_ = std::clamp<int64_t>(kLocalFloats / (chunk_ * kMr), 1, kMaxGroup);
    // An item that is late at the end keeps all others waiting: enough of them to make it short.
    if (arrival()) {
      group_ = std::clamp<int64_t>(a_panels() * chunks_ / (24 * team.size()), 1, group_);
    }
    shared_ = state.shared.floats(static_cast<size_t>(panel_block_ * packed_tokens * kNr));
    for (Scratch& local : state.local) {
      local.floats(static_cast<size_t>(group_ * chunk_ * kMr + kSlackFloats));
    }
    const auto places = static_cast<size_t>(groups() * (panel_block_ + 1));
    if (arrival() && state.places.size() < places) {
      state.places = std::vector<ArrivalPlace>(places);
    }
  }

  void run() {
    team_.run([this](int thread) { work(thread); });
  }

 private:
  static constexpr int64_t kMaxGroup = 8;
  static constexpr int kTreeLevels = 40;

  bool arrival() const { return call_.order == Order::arrival; }
  int64_t groups() const { return divide_up(a_panels(), group_); }
  int64_t a_panels() const { return divide_up(call_.a.lines, kMr); }

  void work(int thread) {
    const int64_t panels = divide_up(call_.b.lines, kNr);
    for (int64_t panel = 0; panel < panels; panel += panel_block_) {
      const int64_t last = std::min(panels, panel + panel_block_);
      if (arrival()) {
        add_on_arrival(thread, panel, last);
        continue;
      }
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) add_in_order(thread, panel, last, chunk);
    }
  }

  int64_t chunk_tokens(int64_t chunk) const {
    return std::min(chunk_, call_.tokens - chunk * chunk_);
  }

  void pack_shared(int thread, int64_t panel, int64_t last, int64_t chunk, float* to) {
    const int64_t count = last - panel;
    const int threads = team_.size();
    const int64_t first = count * thread / threads;
    pack_panels<kNr>(call_.b, panel + first, panel + count * (thread + 1) / threads, chunk * chunk_,
                     chunk_tokens(chunk), to + first * chunk_tokens(chunk) * kNr);
  }

  // ordered and invariant: a tile has one owner, which adds its chunks one after the other.
  void add_in_order(int thread, int64_t panel, int64_t last, int64_t chunk) {
    pack_shared(thread, panel, last, chunk, shared_);
    if (thread == 0) next_.store(0, std::memory_order_relaxed);
    team_.barrier();
    const int64_t steps = chunk_tokens(chunk);
    const bool add = call_.accumulate || chunk > 0;
    float* local = state_.local[static_cast<size_t>(thread)].floats(0);
    const TileGrid grid{a_panels(), last - panel, group_};
    for_each_portion(Portions(grid, thread, team_.size(), call_.dynamic ? &next_ : nullptr),
                     [&](const Portion& now, const Portion& next) {
                       pack_panels<kMr>(call_.a, now.streamed, now.streamed + now.count,
                                        chunk * chunk_, steps, local);
                       if (panel == 0 && now.first == 0 && call_.line_sums != nullptr) {
                         for (int64_t a = 0; a < now.count; ++a) {
                           add_line_sums(local + a * steps * kMr, steps, (now.streamed + a) * kMr,
                                         add);
                         }
                       }
                       Lookahead ahead(call_.a, next.streamed * kMr, next.count * kMr,
                                       chunk * chunk_, steps, local);
                       for (int64_t b = now.first; b < now.last; ++b) {
                         for (int64_t a = 0; a < now.count; ++a) {
                           owned_tile(local + a * steps * kMr, shared_ + b * steps * kNr, steps,
                                      (now.streamed + a) * kMr, (panel + b) * kNr, add, ahead);
                         }
                       }
                     });
    team_.barrier();
  }

  HWY_INLINE void owned_tile(const float* a, const float* b, int64_t steps, int64_t row,
                             int64_t column, bool add, Lookahead& ahead) {
    HWY_ALIGN float sums[kTreeLevels][kTileFloats];
    const int rows = rows_from(row);
    if (add) prefetch_tile(call_.c, call_.c_stride, row, column, rows);
    if (call_.order == Order::invariant) {
      const int64_t sample = steps / call_.samples;
      sum_as_tree(
          call_.samples,
          [&](int64_t s, int pending, int merges) {
            chain(rows, sample, a + s * sample * kMr, b + s * sample * kNr, sums[pending],
                  {.ahead = ahead.take(sample), .merges = merges});
          },
          [&](int from, int into) { add_tile(sums[from], sums[into]); });
    } else {
      chain(rows, steps, a, b, sums[0], {.ahead = ahead.take(steps)});
    }
    store_tile(sums[0], row, column, rows, add);
  }

  int rows_from(int64_t row) const {
    return static_cast<int>(std::min<int64_t>(kMr, call_.a.lines - row));
  }

  HWY_INLINE void store_tile(const float* sums, int64_t row, int64_t column, int rows, bool add) {
    GemmFinish finish;
    if (add) {
      finish.kind = GemmFinish::Kind::residual;
      finish.residual = call_.c;
    }
    finish_tile(finish, sums, call_.c, call_.c_stride, row, column, rows,
                std::min<int64_t>(kNr, call_.b.lines - column));
  }

  void add_line_sums(const float* panel, int64_t steps, int64_t row, bool add) {
    const F32 d;
    for (int lane = 0; lane < kMr; lane += kLanes) {
      HWY_ALIGN float sums[kTreeLevels][kLanes];
      if (call_.order == Order::invariant) {
        const int64_t sample = steps / call_.samples;
        sum_as_tree(
            call_.samples,
            [&](int64_t s, int pending, int merges) {
              Vf sum = sum_steps(d, panel + s * sample * kMr + lane, sample);
              for (int m = 1; m <= merges; ++m) sum = hn::Add(hn::Load(d, sums[pending - m]), sum);
              hn::Store(sum, d, sums[pending - merges]);
            },
            [&](int from, int into) {
              hn::Store(hn::Add(hn::Load(d, sums[into]), hn::Load(d, sums[from])), d, sums[into]);
            });
      } else {
        hn::Store(sum_steps(d, panel + lane, steps), d, sums[0]);
      }
      const int64_t count =
          std::min<int64_t>(std::min(kMr - lane, kLanes), call_.a.lines - row - lane);
      float* to = call_.line_sums + row + lane;
      for (int64_t i = 0; i < count; ++i) to[i] = add ? to[i] + sums[0][i] : sums[0][i];
    }
  }

  // arrival: the chunks of a tile are computed by whoever is free and added when they are finished.
  void add_on_arrival(int thread, int64_t panel, int64_t last) {
    const int threads = team_.size();
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      pack_shared(thread, panel, last, chunk, shared_ + chunk * chunk_ * kNr * (last - panel));
    }
    if (thread == 0) {
      next_.store(0, std::memory_order_relaxed);
      for (ArrivalPlace& place : state_.places) place.started = false;
    }
    team_.barrier();
    const int64_t items = groups() * chunks_;
    int64_t own = thread - threads;
    const auto take = [&] {
      return call_.dynamic ? next_.fetch_add(1, std::memory_order_relaxed) : own += threads;
    };
    for (int64_t item = take(); item < items;) {
      const int64_t after = take();
      arrive(thread, panel, last, item, after < items ? after : item);
      item = after;
    }
    team_.barrier();
  }

  // Item i is chunk i % chunks_ of group i / chunks_, so that threads work on one group together.
  void arrive(int thread, int64_t panel, int64_t last, int64_t item, int64_t after) {
    const int64_t group = item / chunks_;
    const int64_t chunk = item % chunks_;
    const int64_t steps = chunk_tokens(chunk);
    const int64_t a_first = group * group_;
    const int64_t a_count = std::min(group_, a_panels() - a_first);
    const int64_t b_count = last - panel;
    float* local = state_.local[static_cast<size_t>(thread)].floats(0);
    const float* shared = shared_ + chunk * chunk_ * kNr * b_count;
    pack_panels<kMr>(call_.a, a_first, a_first + a_count, chunk * chunk_, steps, local);
    if (panel == 0 && call_.line_sums != nullptr) {
      add_at(place(group, panel_block_), [&](bool add) {
        for (int64_t a = 0; a < a_count; ++a) {
          add_line_sums(local + a * steps * kMr, steps, (a_first + a) * kMr, add);
        }
      });
    }
    Lookahead ahead(call_.a, after / chunks_ * group_ * kMr, after == item ? 0 : group_ * kMr,
                    after % chunks_ * chunk_, chunk_tokens(after % chunks_), local);
    HWY_ALIGN float sums[kMaxGroup][kTileFloats];
    for (int64_t i = 0; i < b_count; ++i) {
      // Threads that start two chunks together do not meet at each tile and pull its lines from
      // each other.
      const int64_t b = (i + chunk) % b_count;
      const int64_t column = (panel + b) * kNr;
      __builtin_prefetch(&place(group, b), 1);
      for (int64_t a = 0; a < a_count; ++a) {
        const int64_t row = (a_first + a) * kMr;
        prefetch_tile(call_.c, call_.c_stride, row, column, rows_from(row));
        chain(rows_from(row), steps, local + a * steps * kMr, shared + b * steps * kNr, sums[a],
              {.ahead = ahead.take(steps)});
      }
      add_at(place(group, b), [&](bool add) {
        for (int64_t a = 0; a < a_count; ++a) {
          const int64_t row = (a_first + a) * kMr;
          store_tile(sums[a], row, column, rows_from(row), add);
        }
      });
    }
  }

  // One for each group of A panels and each B panel, the last for the group's line sums.
  ArrivalPlace& place(int64_t group, int64_t b) {
    return state_.places[static_cast<size_t>(group * (panel_block_ + 1) + b)];
  }

  // The first contribution replaces what was there unless gradients accumulate.
  template <class Add>
  HWY_INLINE void add_at(ArrivalPlace& place, const Add& add) {
    const std::lock_guard guard(place.lock);
    add(call_.accumulate || place.started);
    place.started = true;
  }

  Team& team_;
  GemmState& state_;
  const WeightGradientCall& call_;
  int64_t chunk_ = 0;
  int64_t chunks_ = 0;
  int64_t panel_block_ = 0;
  int64_t group_ = 1;
  float* shared_ = nullptr;
  std::atomic<int64_t> next_{0};
};

void weight_gradient_on_target(Team& team, GemmState& state, const WeightGradientCall& call,
                               int64_t chunk) {
  WeightGradient(team, state, call, chunk).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(weight_gradient_on_target);

void weight_gradient_in_chunks(Team& team, GemmState& state, const WeightGradientCall& call,
                               int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(weight_gradient_on_target)(team, state, call, chunk);
}

}  // namespace dettax
#endif
