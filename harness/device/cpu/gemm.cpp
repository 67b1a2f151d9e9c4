#include "harness/device/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/gemm.cpp"
#include "harness/device/cpu/targets.h"
#include "hwy/foreach_target.h"
// What follows is read once for each target.
#include "harness/device/cpu/gemm_schedule-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

// A is packed once for all threads, block of rows by block of rows; each thread packs panels of B
// for itself, so that weights are read from memory once and never written back packed. K is cut
// only where it is long; the chains then go on from C.
class Multiplication {
 public:
  Multiplication(Team& team, GemmState& state, const GemmCall& call)
      : team_(team), state_(state), call_(call) {
    const int64_t blocks = divide_up(call.steps, kStepBlock);
    step_block_ = divide_up(divide_up(call.steps, blocks), kLanes) * kLanes;
    const int64_t panels = divide_up(call.a.lines, kMr);
    panel_block_ = std::clamp<int64_t>(kSharedFloats / (step_block_ * kMr), 1, panels);
    panel_block_ = divide_up(panels, divide_up(panels, panel_block_));
    group_ = std::clamp<int64_t>(kLocalFloats / (step_block_ * kNr), 1, 8);
    shared_ =
        state.shared.floats(static_cast<size_t>(panel_block_ * step_block_ * kMr + kSlackFloats));
    for (Scratch& local : state.local) {
      local.floats(static_cast<size_t>(group_ * step_block_ * kNr));
    }
    const bool reads_c = call.finish.residual == call.c;
    partial_ = blocks > 1 && reads_c
                   ? state.partial.floats(static_cast<size_t>(call.a.lines * call.c_stride))
                   : call.c;
  }

  void run() {
    team_.run([this](int thread) { work(thread); });
  }

 private:
  static constexpr int64_t kStepBlock = 1600;

  void work(int thread) {
    const int64_t panels = divide_up(call_.a.lines, kMr);
    for (int64_t panel = 0; panel < panels; panel += panel_block_) {
      for (int64_t step = 0; step < call_.steps; step += step_block_) {
        block(thread, panel, std::min(panels, panel + panel_block_), step);
      }
    }
  }

  void block(int thread, int64_t panel, int64_t last_panel, int64_t step) {
    const int64_t steps = std::min(step_block_, call_.steps - step);
    const int64_t count = last_panel - panel;
    const int threads = team_.size();
    const int64_t first = count * thread / threads;
    pack_panels<kMr>(call_.a, panel + first, panel + count * (thread + 1) / threads, step, steps,
                     shared_ + first * steps * kMr);
    if (thread == 0) next_.store(0, std::memory_order_relaxed);
    team_.barrier();
    const TileGrid grid{divide_up(call_.b.lines, kNr), count, group_};
    float* local = state_.local[static_cast<size_t>(thread)].floats(0);
    for_each_portion(
        Portions(grid, thread, threads, call_.dynamic ? &next_ : nullptr),
        [&](const Portion& now, const Portion& next) {
          pack_panels<kNr>(call_.b, now.streamed, now.streamed + now.count, step, steps, local);
          Lookahead ahead(call_.b, next.streamed * kNr, next.count * kNr, step, steps, local);
          for (int64_t a = now.first; a < now.last; ++a) {
            for (int64_t b = 0; b < now.count; ++b) {
              tile(shared_ + a * steps * kMr, local + b * steps * kNr, (panel + a) * kMr,
                   (now.streamed + b) * kNr, step, steps, ahead.take(steps));
            }
          }
        });
    team_.barrier();
  }

  HWY_INLINE void tile(const float* a, const float* b, int64_t row, int64_t column, int64_t step,
                       int64_t steps, const LinesAhead& ahead) {
    HWY_ALIGN float sums[kTileFloats];
    const int rows = static_cast<int>(std::min<int64_t>(kMr, call_.a.lines - row));
    const int64_t columns = std::min<int64_t>(kNr, call_.b.lines - column);
    prefetch_tile(call_.c, call_.c_stride, row, column, rows);
    if (step > 0) load_tile(partial_, call_.c_stride, row, column, rows, columns, sums);
    chain(rows, steps, a, b, sums, {.ahead = ahead, .resume = step > 0});
    if (step + steps == call_.steps) {
      finish_tile(call_.finish, sums, call_.c, call_.c_stride, row, column, rows, columns);
    } else {
      finish_tile(GemmFinish{}, sums, partial_, call_.c_stride, row, column, rows, columns);
    }
  }

  Team& team_;
  GemmState& state_;
  const GemmCall& call_;
  int64_t step_block_ = 0;
  int64_t panel_block_ = 0;
  int64_t group_ = 1;
  float* shared_ = nullptr;
  float* partial_ = nullptr;
  std::atomic<int64_t> next_{0};
};

void gemm_on_target(Team& team, GemmState& state, const GemmCall& call) {
  Multiplication(team, state, call).run();
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(gemm_on_target);
HWY_EXPORT(target_name);

void gemm(Team& team, GemmState& state, const GemmCall& call) {
  HWY_DYNAMIC_DISPATCH(gemm_on_target)(team, state, call);
}

const char* gemm_target_name() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

size_t GemmState::bytes() const {
  size_t total = shared.bytes() + partial.bytes() + places.size() * sizeof(ArrivalPlace);
  for (const Scratch& scratch : local) total += scratch.bytes();
  return total;
}

}  // namespace dettax
#endif
