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
constexpr int64_t kLocalFloats = int64_t{96} << 10;
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

// Calls work(first streamed panel, count, first shared panel, last shared panel) for tiles [begin,
// end).
template <class Work>
HWY_INLINE void walk_tiles(const TileGrid& grid, int64_t begin, int64_t end, const Work& work) {
  while (begin < end) {
    const int64_t streamed = begin / grid.shared_panels;
    const int64_t first = begin % grid.shared_panels;
    const int64_t left = end - begin;
    if (first == 0 && left >= grid.shared_panels) {
      const int64_t count = std::min(grid.group, left / grid.shared_panels);
      work(streamed, count, int64_t{0}, grid.shared_panels);
      begin += count * grid.shared_panels;
    } else {
      const int64_t last = std::min(grid.shared_panels, first + left);
      work(streamed, int64_t{1}, first, last);
      begin += last - first;
    }
  }
}

// Static: an equal part of the tiles for each thread. Dynamic: portions by demand from `next`.
template <class Work>
HWY_INLINE void share_tiles(const TileGrid& grid, int thread, int threads,
                            std::atomic<int64_t>* next, const Work& work) {
  const int64_t tiles = grid.tiles();
  if (next == nullptr) {
    walk_tiles(grid, tiles * thread / threads, tiles * (thread + 1) / threads, work);
    return;
  }
  int64_t portion =
      std::max<int64_t>(1, std::min(grid.group * grid.shared_panels, tiles / (8 * threads)));
  if (portion > grid.shared_panels) portion -= portion % grid.shared_panels;
  if (portion < grid.shared_panels)
    portion = divide_up(grid.shared_panels, divide_up(grid.shared_panels, portion));
  for (int64_t begin; (begin = next->fetch_add(portion, std::memory_order_relaxed)) < tiles;) {
    walk_tiles(grid, begin, std::min(tiles, begin + portion), work);
  }
}

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
