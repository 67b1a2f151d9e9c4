// Products of small tiles for attention. Every element is one chain of fused multiply-adds over the
// depth in ascending order, so its bits depend neither on the vector width nor on where the tile's
// edges are.

// Highway's guard: the file is read once for each target.
#if defined(DETTAX_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_ATTENTION_TILE_INL_H
#undef DETTAX_ATTENTION_TILE_INL_H
#else
#define DETTAX_ATTENTION_TILE_INL_H
#endif

#include <algorithm>

#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {

// Queries and keys are handled in blocks of 64: a tile of 64 x 64 floats is 16 KB.
inline constexpr size_t kBlock = 64;

// The left operand of a product: element (row, k) at data[row * row_step + k * depth_step]. Each of
// its elements is read once per 64 columns, so it may lie in a wide matrix; the right operand is read
// again and again and should be packed.
struct LeftOperand {
  const float* data;
  size_t row_step, depth_step;
  HWY_INLINE LeftOperand at(size_t row, size_t k) const {
    return {data + row * row_step + k * depth_step, row_step, depth_step};
  }
};

inline constexpr size_t kTileRows = 4;

// c[4, 16 * kGroups] (+)= a[4, depth] b[depth, 16 * kGroups]; old_factor: what lane j of c is
// multiplied by before the sum is added to it (null: 1).
template <size_t kGroups>
HWY_INLINE void tile(const LeftOperand& a, const float* HWY_RESTRICT b, size_t b_step, size_t depth,
                     float* HWY_RESTRICT c, size_t c_step, bool accumulate,
                     const float* old_factor) {
  constexpr size_t kVectors = kGroups * kParts;
  const FloatTag d;
  FloatVector sum[kTileRows][kVectors];
  for (size_t i = 0; i < kTileRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      sum[i][v] = accumulate ? hn::LoadU(d, c + i * c_step + v * kVectorLanes) : hn::Zero(d);
    }
  }
  if (old_factor != nullptr) {
    for (size_t i = 0; i < kTileRows; ++i) {
      for (size_t v = 0; v < kVectors; ++v) {
        sum[i][v] = hn::Mul(sum[i][v], hn::LoadU(d, old_factor + v * kVectorLanes));
      }
    }
  }
  const float* HWY_RESTRICT left = a.data;
  for (size_t k = 0; k < depth; ++k, left += a.depth_step, b += b_step) {
    FloatVector right[kVectors];
    for (size_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * kVectorLanes);
    for (size_t i = 0; i < kTileRows; ++i) {
      const auto factor = hn::Set(d, left[i * a.row_step]);
      for (size_t v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(factor, right[v], sum[i][v]);
    }
  }
  for (size_t i = 0; i < kTileRows; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[i][v], d, c + i * c_step + v * kVectorLanes);
    }
  }
}

// The same for `columns` columns, a multiple of 16.
HWY_INLINE void tile_row(const LeftOperand& a, const float* b, size_t b_step, size_t depth,
                         float* c, size_t c_step, size_t columns, bool accumulate,
                         const float* old_factor = nullptr) {
  for (size_t at = 0; at < columns;) {
    const float* factor = old_factor == nullptr ? nullptr : old_factor + at;
    const size_t groups = (columns - at) / kLanes;
    // As many accumulators as registers allow: 4 x 4 of 512 bits, 4 x 2 of 256 bits.
    if constexpr (kVectorLanes == kLanes) {
      if (groups >= 4) {
        tile<4>(a, b + at, b_step, depth, c + at, c_step, accumulate, factor);
        at += 4 * kLanes;
        continue;
      }
      if (groups >= 2) {
        tile<2>(a, b + at, b_step, depth, c + at, c_step, accumulate, factor);
        at += 2 * kLanes;
        continue;
      }
    }
    tile<1>(a, b + at, b_step, depth, c + at, c_step, accumulate, factor);
    at += kLanes;
  }
}

HWY_INLINE size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// to[rows, columns] = from * factor, rows of `step` floats in `from` and `to_step` in `to`; columns up
// to to_step and rows up to padded_rows are filled with zeros.
HWY_INLINE void pack_rows(const float* from, size_t step, size_t rows, size_t columns, float factor,
                          float* to, size_t to_step, size_t padded_rows) {
  const Lanes f = set(factor);
  for (size_t r = 0; r < rows; ++r) {
    for_each_lanes(columns, [&](auto access, size_t i) {
      store(mul(access.read(from + r * step + i), f), to + r * to_step + i);
    });
  }
  std::fill(to + rows * to_step, to + padded_rows * to_step, 0.0f);
}

#if HWY_TARGET != HWY_SCALAR
// Block b (4 lanes) of v to to + 4 b * step.
template <class D, class V>
HWY_INLINE void store_blocks(D d, V v, float* to, size_t step) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, step);
    store_blocks(half, hn::UpperHalf(half, v), to + hn::MaxLanes(D()) / 2 * step, step);
  }
}

// Four rows of one vector become one column of four for each lane.
HWY_INLINE void transpose_vector(const float* from, size_t step, FloatVector factor, float* to,
                                 size_t to_step) {
  const FloatTag d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<FloatTag>> wide;
  const auto pair = [&](auto v) { return hn::BitCast(wide, v); };
  const auto floats = [&](auto v) { return hn::Mul(hn::BitCast(d, v), factor); };
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + step);
  const auto r2 = hn::LoadU(d, from + 2 * step);
  const auto r3 = hn::LoadU(d, from + 3 * step);
  const auto low01 = pair(hn::InterleaveLower(d, r0, r1));
  const auto high01 = pair(hn::InterleaveUpper(d, r0, r1));
  const auto low23 = pair(hn::InterleaveLower(d, r2, r3));
  const auto high23 = pair(hn::InterleaveUpper(d, r2, r3));
  store_blocks(d, floats(hn::InterleaveLower(wide, low01, low23)), to, to_step);
  store_blocks(d, floats(hn::InterleaveUpper(wide, low01, low23)), to + to_step, to_step);
  store_blocks(d, floats(hn::InterleaveLower(wide, high01, high23)), to + 2 * to_step, to_step);
  store_blocks(d, floats(hn::InterleaveUpper(wide, high01, high23)), to + 3 * to_step, to_step);
}
#endif

// to[columns, rows] = from[rows, columns]^T * factor.
HWY_INLINE void transpose(const float* from, size_t step, size_t rows, size_t columns, float factor,
                          float* to, size_t to_step) {
  size_t whole_rows = 0;
  size_t whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto f = hn::Set(FloatTag(), factor);
  whole_rows = rows / 4 * 4;
  whole_columns = columns / kVectorLanes * kVectorLanes;
  for (size_t r = 0; r < whole_rows; r += 4) {
    for (size_t c = 0; c < whole_columns; c += kVectorLanes) {
      transpose_vector(from + r * step + c, step, f, to + c * to_step + r, to_step);
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[c * to_step + r] = from[r * step + c] * factor;
    }
  }
}

// As transpose, with zeros in rows [rows, padded_rows) of `from`, that is, behind each row of `to`.
HWY_INLINE void pack_transposed(const float* from, size_t step, size_t rows, size_t columns,
                                float factor, float* to, size_t to_step) {
  transpose(from, step, rows, columns, factor, to, to_step);
  if (rows == to_step) return;
  for (size_t c = 0; c < columns; ++c) {
    std::fill(to + c * to_step + rows, to + (c + 1) * to_step, 0.0f);
  }
}

// The rows of a block as a left operand in groups of four. They are used where they lie, unless a
// group would reach behind the last row or the head's last column; then a padded copy is.
HWY_INLINE const float* padded_rows(const float* from, size_t& step, size_t rows, size_t width,
                                    float* copy) {
  if (rows % kTileRows == 0 && width % kTileRows == 0) return from;
  const size_t copy_step = round_up(width, kLanes);
  pack_rows(from, step, rows, width, 1.0f, copy, copy_step, round_up(rows, kTileRows));
  step = copy_step;
  return copy;
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
