// Packing for the kernels of gemm_tile-inl.h: a panel holds, for each k in order, kMr neighbouring
// rows of A or kNr neighbouring columns of B. What a panel lacks at the edge of the matrix is zero.

#if defined(DETTAX_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_GEMM_PACK_INL_H
#undef DETTAX_GEMM_PACK_INL_H
#else
#define DETTAX_GEMM_PACK_INL_H
#endif

#include "harness/device/cpu/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Turns rows into columns, inside each 128-bit block of four vectors.
HWY_INLINE void transpose_blocks(F32 d, Vf& a, Vf& b, Vf& c, Vf& e) {
  const hn::Repartition<double, F32> pairs;
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  a = hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low));
  b = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low));
  c = hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high));
  e = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high));
}

#endif

// Transposes a square of kLanes vectors.
HWY_INLINE void transpose([[maybe_unused]] F32 d, [[maybe_unused]] Vf (&v)[kLanes]) {
#if HWY_TARGET != HWY_SCALAR
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) transpose_blocks(d, v[i], v[i + 1], v[i + 2], v[i + 3]);
  // Now block b of v[4 i + j] holds rows 4 i .. 4 i + 3 of column 4 b + j: transpose the blocks.
#if HWY_CAP_GE512
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Vf even_low = hn::ConcatLowerLower(d, v[8 + j], v[j]);
    const Vf even_high = hn::ConcatUpperUpper(d, v[8 + j], v[j]);
    const Vf odd_low = hn::ConcatLowerLower(d, v[12 + j], v[4 + j]);
    const Vf odd_high = hn::ConcatUpperUpper(d, v[12 + j], v[4 + j]);
    v[j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_low), even_low);
    v[4 + j] = hn::OddEvenBlocks(odd_low, hn::SwapAdjacentBlocks(even_low));
    v[8 + j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_high), even_high);
    v[12 + j] = hn::OddEvenBlocks(odd_high, hn::SwapAdjacentBlocks(even_high));
  }
#elif HWY_CAP_GE256
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Vf low = hn::ConcatLowerLower(d, v[4 + j], v[j]);
    v[4 + j] = hn::ConcatUpperUpper(d, v[4 + j], v[j]);
    v[j] = low;
  }
#endif
#endif
}

// One block of kLanes steps of kLanes lines that are contiguous along k. The stores of a panel
// narrower than a vector run into the next step's place, which is written after them; the last one
// of a panel must not.
template <int kWidth>
HWY_INLINE void pack_block_transposed(const float* from, int64_t line_stride, float* to,
                                      bool last) {
  const F32 d;
  Vf v[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    v[i] = hn::LoadU(d, from + i * line_stride);
    __builtin_prefetch(from + i * line_stride + 8 * kLanes);
  }
  transpose(d, v);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes - 1; ++i) hn::StoreU(v[i], d, to + i * kWidth);
  if (kWidth < kLanes && last) {
    store_some(d, v[kLanes - 1], to + (kLanes - 1) * kWidth, kWidth);
  } else {
    hn::StoreU(v[kLanes - 1], d, to + (kLanes - 1) * kWidth);
  }
}

// panel[steps, kWidth] from `lines` lines that are contiguous along k.
template <int kWidth>
void pack_along_k(const float* from, int64_t line_stride, int64_t lines, int64_t steps,
                  float* panel) {
  constexpr int kBlock = kWidth < kLanes ? kWidth : kLanes;
  for (int first = 0; first < kWidth; first += kBlock) {
    int64_t k = 0;
    if (lines - first >= kLanes) {
      for (; k + kLanes <= steps; k += kLanes) {
        pack_block_transposed<kWidth>(from + first * line_stride + k, line_stride,
                                      panel + k * kWidth + first, k + kLanes == steps);
      }
    }
    for (; k < steps; ++k) {
      for (int i = first; i < first + kBlock; ++i) {
        panel[k * kWidth + i] = i < lines ? from[i * line_stride + k] : 0.0f;
      }
    }
  }
}

// panel[steps, kWidth] from `lines` lines that lie side by side, a step's at from + step *
// step_stride.
template <int kWidth>
void pack_across_k(const float* from, int64_t step_stride, int64_t lines, int64_t steps,
                   float* panel) {
  const F32 d;
  constexpr int kWhole = kWidth < kLanes ? kLanes : kWidth;
  int64_t k = 0;
  if (lines >= kWhole) {
    const int64_t whole_steps = kWidth < kLanes ? steps - 1 : steps;
    for (; k < whole_steps; ++k) {
      for (int i = 0; i < kWidth; i += kLanes) {
        hn::StoreU(hn::LoadU(d, from + k * step_stride + i), d, panel + k * kWidth + i);
      }
    }
  }
  const int64_t used = std::min<int64_t>(lines, kWidth);
  for (; k < steps; ++k) {
    std::copy_n(from + k * step_stride, used, panel + k * kWidth);
    std::fill_n(panel + k * kWidth + used, kWidth - used, 0.0f);
  }
}

// Panel of the `lines` lines of `matrix` from (line, step) on, where steps run along k. Reads no
// element outside them but up to a vector more of the lines that follow.
template <int kWidth>
void pack_panel(const GemmOperand& matrix, int64_t line, int64_t step, int64_t steps,
                float* panel) {
  const float* from = matrix.data + line * matrix.line_stride + step * matrix.step_stride;
  const int64_t lines = matrix.lines - line;
  if (matrix.step_stride == 1) {
    pack_along_k<kWidth>(from, matrix.line_stride, lines, steps, panel);
  } else {
    pack_across_k<kWidth>(from, matrix.step_stride, lines, steps, panel);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
