// The inner kernels of matrix multiplication, once per instruction set: packing of panels, chains
// of fused multiply-adds over a tile of C, and what happens to a finished tile.
//
// Each element of C is ONE chain c = fma(a[k], b[k], c) over k in order. So its bits depend on
// neither the size of the tile, the width of the vectors, where k is cut into blocks (the chain is
// resumed), its place in a tile, nor on who computes it.

#if defined(DETTAX_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DETTAX_GEMM_TILE_INL_H
#undef DETTAX_GEMM_TILE_INL_H
#else
#define DETTAX_GEMM_TILE_INL_H
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "harness/device/cpu/gemm.h"
#include "harness/device/cpu/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vf = hn::Vec<F32>;
constexpr int kLanes = HWY_LANES(float);

// Rows and vectors of a tile: as many accumulators as the registers hold beside the operands.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kMr = 14;
constexpr int kVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int kMr = 8;
constexpr int kVectors = 3;
#elif HWY_TARGET == HWY_AVX2
constexpr int kMr = 6;
constexpr int kVectors = 2;
#else
constexpr int kMr = 4;
constexpr int kVectors = 3;
#endif
static_assert(kMr <= kLanes || kMr % kLanes == 0, "packing stores whole vectors");
constexpr int kNr = kVectors * kLanes;
constexpr int kTileFloats = kMr * kNr;

// Keeps a loaded vector in its register: g++ 12 otherwise folds the load into each multiply-add and
// reads B once per row.
HWY_INLINE void keep_in_register([[maybe_unused]] Vf& v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  asm("" : "+v"(v.raw));
#endif
}

HWY_INLINE Vf load_some(F32 d, const float* from, int64_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, lanes);
}

HWY_INLINE void store_some(F32 d, Vf v, float* to, int64_t count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
}

HWY_INLINE Vf load_up_to(F32 d, const float* from, int64_t count) {
  return count >= kLanes ? hn::LoadU(d, from) : load_some(d, from, count);
}

// ----------------------------------------------------------------------------------------------------------------
// chains of a tile

// Lines of memory that the caller will read next, `stride` floats apart: a chain asks for one of them every kStepsPerLine steps, so that
// reading from memory goes on while it computes.
struct LinesAhead {
  const float* at;
  int64_t stride;
};
constexpr int kStepsPerLine = 8;

struct ChainOptions {
  LinesAhead ahead;
  bool resume = false;
  int merges = 0;
};

// tile[kRows, kNr] = chain over k steps of a[k, kMr] and b[k, kNr], from zero or going on from the
// tile's content (`resume`). Then the `merges` tiles before it are added, nearest first, and the sum replaces
// the farthest of them.
template <int kRows>
HWY_NOINLINE void run_chain(int64_t steps, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                            float* HWY_RESTRICT tile, ChainOptions options) {
  const F32 d;
  Vf sum[static_cast<size_t>(kRows)][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  if (options.resume) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Load(d, tile + r * kNr + v * kLanes);
    }
  }
  const auto multiply_add = [&]() HWY_ATTR {
    Vf column[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      column[v] = hn::Load(d, b + v * kLanes);
      keep_in_register(column[v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vf row = hn::Set(d, a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(row, column[v], sum[r][v]);
    }
    a += kMr;
    b += kNr;
  };
  int64_t step = 0;
  for (; step + kStepsPerLine <= steps; step += kStepsPerLine) {
    __builtin_prefetch(options.ahead.at, 0, 2);
    options.ahead.at += options.ahead.stride;
#pragma GCC unroll 1
    for (int i = 0; i < kStepsPerLine; ++i) multiply_add();
  }
  for (; step < steps; ++step) multiply_add();
  for (int merge = 0; merge < options.merges; ++merge) {
    tile -= kTileFloats;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::Add(hn::Load(d, tile + r * kNr + v * kLanes), sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, tile + r * kNr + v * kLanes);
  }
}

using Chain = void (*)(int64_t, const float*, const float*, float*, ChainOptions);

template <int... kRows>
constexpr std::array<Chain, kMr> chain_table(std::integer_sequence<int, kRows...>) {
  return {&run_chain<kRows + 1>...};
}

// A tile with fewer rows takes a kernel of its own, so that small batches waste nothing.
HWY_INLINE void chain(int rows, int64_t steps, const float* a, const float* b, float* tile,
                      const ChainOptions& options) {
  static constexpr auto kChains = chain_table(std::make_integer_sequence<int, kMr>());
  kChains[static_cast<size_t>(rows) - 1](steps, a, b, tile, options);
}

// *into += *from for the last merges of a sum over samples.
HWY_INLINE void add_tile(const float* HWY_RESTRICT from, float* HWY_RESTRICT into) {
  const F32 d;
  for (int i = 0; i < kTileFloats; i += kLanes) {
    hn::Store(hn::Add(hn::Load(d, into + i), hn::Load(d, from + i)), d, into + i);
  }
}

// -----------------------------------------------------------------------------------------------------------------
// finished tiles

// One vector of finished sums; `at` = row * stride + column is its place in the operands shaped
// like C.
template <GemmFinish::Kind kKind>
HWY_INLINE Vf finish_vector(F32 d, const GemmFinish& f, Vf sum, int64_t at, int64_t column,
                            int64_t count) {
  using Kind = GemmFinish::Kind;
  constexpr bool kBias =
      kKind == Kind::bias || kKind == Kind::bias_gelu || kKind == Kind::bias_residual;
  if constexpr (kBias) sum = hn::Add(sum, load_up_to(d, f.bias + column, count));
  if constexpr (kKind == Kind::bias_gelu) {
    if (count >= kLanes) {
      hn::StoreU(sum, d, f.pre_activation + at);
    } else {
      store_some(d, sum, f.pre_activation + at, count);
    }
    sum = gelu(d, sum);
  }
  if constexpr (kKind == Kind::residual || kKind == Kind::bias_residual ||
                kKind == Kind::residual_gelu_derivative) {
    sum = hn::Add(sum, load_up_to(d, f.residual + at, count));
  }
  if constexpr (kKind == Kind::gelu_derivative || kKind == Kind::residual_gelu_derivative) {
    sum = hn::Mul(sum, gelu_derivative(d, load_up_to(d, f.pre_activation + at, count)));
  }
  return sum;
}

template <GemmFinish::Kind kKind>
HWY_NOINLINE void finish_tile_as(const GemmFinish& f, const float* tile, float* c, int64_t stride,
                                 int64_t row, int64_t column, int rows, int64_t columns) {
  const F32 d;
  for (int r = 0; r < rows; ++r) {
    const int64_t at = (row + r) * stride + column;
    for (int v = 0; v < kVectors; ++v) {
      const int64_t count = columns - v * kLanes;
      if (count <= 0) break;
      const int64_t offset = v * kLanes;
      const Vf value = finish_vector<kKind>(d, f, hn::Load(d, tile + r * kNr + offset), at + offset,
                                            column + offset, count);
      if (count >= kLanes) {
        hn::StoreU(value, d, c + at + offset);
      } else {
        store_some(d, value, c + at + offset, count);
      }
    }
  }
}

// Writes tile[rows, columns] to C at (row, column), finished as `f` says. C and the other operands
// have the same row stride.
HWY_INLINE void finish_tile(const GemmFinish& f, const float* tile, float* c, int64_t stride,
                            int64_t row, int64_t column, int rows, int64_t columns) {
  using Kind = GemmFinish::Kind;
  switch (f.kind) {
    case Kind::none:
      return finish_tile_as<Kind::none>(f, tile, c, stride, row, column, rows, columns);
    case Kind::bias:
      return finish_tile_as<Kind::bias>(f, tile, c, stride, row, column, rows, columns);
    case Kind::bias_gelu:
      return finish_tile_as<Kind::bias_gelu>(f, tile, c, stride, row, column, rows, columns);
    case Kind::bias_residual:
      return finish_tile_as<Kind::bias_residual>(f, tile, c, stride, row, column, rows, columns);
    case Kind::residual:
      return finish_tile_as<Kind::residual>(f, tile, c, stride, row, column, rows, columns);
    case Kind::gelu_derivative:
      return finish_tile_as<Kind::gelu_derivative>(f, tile, c, stride, row, column, rows, columns);
    case Kind::residual_gelu_derivative:
      return finish_tile_as<Kind::residual_gelu_derivative>(f, tile, c, stride, row, column, rows,
                                                            columns);
  }
}

// Reads a tile of C back, to go on with its chains.
inline HWY_NOINLINE void load_tile(const float* c, int64_t stride, int64_t row, int64_t column,
                                   int rows, int64_t columns, float* tile) {
  const F32 d;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t count = columns - v * kLanes;
      const float* from = c + (row + r) * stride + column + v * kLanes;
      hn::Store(count > 0 ? load_up_to(d, from, count) : hn::Zero(d), d,
                tile + r * kNr + v * kLanes);
    }
  }
}

HWY_INLINE void prefetch_tile(const float* c, int64_t stride, int64_t row, int64_t column,
                              int rows) {
  for (int r = 0; r < rows; ++r) {
    const float* at = c + (row + r) * stride + column;
    for (int i = 0; i < kNr; i += 16) __builtin_prefetch(at + i, 1);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#endif
