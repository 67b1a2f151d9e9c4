// Which thread computes which tiles, once per instruction set because the loops must inline the
// kernels.

#if defined(DETTAX_GEMM_SCHEDULE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_GEMM_SCHEDULE_INL_H
#undef DETTAX_GEMM_SCHEDULE_INL_H
#else
#define DETTAX_GEMM_SCHEDULE_INL_H
#endif

#include "harness/device/cpu/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

// Floats of the operand that all threads share, packed: a share of the last-level cache.
constexpr int64_t kSharedFloats = int64_t{2} << 20;
// Floats that one thread packs for itself: half of a second-level cache.
constexpr int64_t kLocalFloats = int64_t{64} << 10;
// Whole vectors may be read from the end of a panel.
constexpr int64_t kSlackFloats = 64;

HWY_INLINE int64_t divide_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// Tiles counted streamed panel by streamed panel: the streamed operand is packed by the thread that
// uses it, group by group, and meets every panel of the shared operand.
struct TileGrid {
  int64_t streamed_panels = 0;
  int64_t shared_panels = 0;
  int64_t group = 1;  // streamed panels packed at once

  int64_t tiles() const { return streamed_panels * shared_panels; }
};

// Some streamed panels and the shared panels that they meet; none if count is 0.
struct Portion {
  int64_t streamed = 0;
  int64_t count = 0;
  int64_t first = 0;
  int64_t last = 0;
};

// What one thread does. Static: an equal part of the tiles. Dynamic: parts by demand, smaller towards the end, each taken while the one
// before is computed so that its data can be fetched ahead.
class Portions {
 public:
  Portions(const TileGrid& grid, int thread, int threads, std::atomic<int64_t>* next)
      : grid_(grid), threads_(threads), next_(next) {
    if (next == nullptr) {
      begin_ = grid.tiles() * thread / threads;
      end_ = grid.tiles() * (thread + 1) / threads;
    }
  }

  Portion take() {
    if (begin_ == end_ && next_ != nullptr) claim();
    if (begin_ == end_) return {};
    const int64_t streamed = begin_ / grid_.shared_panels;
    const int64_t first = begin_ % grid_.shared_panels;
    const int64_t left = end_ - begin_;
    if (first == 0 && left >= grid_.shared_panels) {
      const int64_t count = std::min(grid_.group, left / grid_.shared_panels);
      begin_ += count * grid_.shared_panels;
      return {streamed, count, 0, grid_.shared_panels};
    }
    const int64_t last = std::min(grid_.shared_panels, first + left);
    begin_ += last - first;
    return {streamed, 1, first, last};
  }

 private:
  void claim() {
    const int64_t tiles = grid_.tiles();
    int64_t begin = next_->load(std::memory_order_relaxed);
    int64_t size = 0;
    do {
      if (begin >= tiles) return;
      size = portion_of(tiles - begin);
    } while (!next_->compare_exchange_weak(begin, begin + size, std::memory_order_relaxed));
    begin_ = begin;
    end_ = std::min(tiles, begin + size);
  }

  int64_t portion_of(int64_t left) const {
    const int64_t fair = left / (3 * threads_);
    if (fair >= grid_.shared_panels) {
      return std::min(grid_.group, fair / grid_.shared_panels) * grid_.shared_panels;
    }
    return std::max(fair, divide_up(grid_.shared_panels, 8));
  }

  const TileGrid& grid_;
  int threads_;
  std::atomic<int64_t>* next_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// Calls work(portion, the portion after it).
template <class Work>
HWY_INLINE void for_each_portion(Portions portions, const Work& work) {
  for (Portion now = portions.take(); now.count > 0;) {
    const Portion next = portions.take();
    work(now, next);
    now = next;
  }
}

// The memory that a portion of an operand will be packed from, handed out line by line for prefetching.
class Lookahead {
 public:
  // Lines [line, line + lines) of the operand over `steps` steps. `idle` is an address that is in the cache anyway.
  Lookahead(const GemmOperand& matrix, int64_t line, int64_t lines, int64_t step, int64_t steps,
            const float* idle)
      : from_(matrix.data + line * matrix.line_stride + step * matrix.step_stride), idle_(idle) {
    lines = std::min(lines, matrix.lines - line);
    if (lines <= 0) return;
    const bool along = matrix.step_stride == 1;
    const int64_t rows = along ? lines : steps;
    const int64_t row_floats = along ? steps : lines;
    const int64_t row_stride = along ? matrix.line_stride : matrix.step_stride;
    if (row_stride == row_floats) {
      inner_stride_ = kFloatsPerLine;
      inner_count_ = divide_up(rows * row_floats, kFloatsPerLine);
      outer_count_ = 1;
    } else {
      // Down the rows, which are more than the lines of a row: a chain takes as many as it has room for.
      inner_stride_ = row_stride;
      inner_count_ = rows;
      outer_count_ = divide_up(row_floats, kFloatsPerLine) + 1;
    }
  }

  LinesAhead take(int64_t steps) {
    if (outer_ == outer_count_) return {idle_, 0};
    const LinesAhead lines{from_ + outer_ * kFloatsPerLine + inner_ * inner_stride_, inner_stride_};
    inner_ += steps / kStepsPerLine;
    if (inner_ >= inner_count_) {
      inner_ = 0;
      ++outer_;
    }
    return lines;
  }

 private:
  static constexpr int64_t kFloatsPerLine = 16;
  const float* from_;
  const float* idle_;
  int64_t inner_stride_ = 0;
  int64_t inner_count_ = 0;
  int64_t outer_count_ = 0;
  int64_t inner_ = 0;
  int64_t outer_ = 0;
};

// Packs panels [first, last) of an operand, `steps` steps from `step` on, one after the other.
template <int kWidth>
void pack_panels(const GemmOperand& matrix, int64_t first, int64_t last, int64_t step,
                 int64_t steps, float* to) {
  for (int64_t p = first; p < last; ++p) {
    pack_panel<kWidth>(matrix, p * kWidth, step, steps, to + (p - first) * steps * kWidth);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
