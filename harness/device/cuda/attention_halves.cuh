#pragma once

// Attention over bf16 numbers on tensor cores: tiles as bf16 in shared memory, sums in f32 in registers.

#include "harness/device/cuda/attention.cuh"
#include "harness/device/cuda/matrix_unit.cuh"

namespace dettax {

// Numbers from a row of a tile to the next: rows begin 16 bytes of 128 apart, so that a matrix of 8 rows meets no bank twice.
template <int kWidth>
inline constexpr int kHalvesStep = kWidth + 8;

// by_eight: rows and heads begin at multiples of 16 bytes.
template <int kRows, int kWidth, int kThreadCount>
__device__ void load_halves(Bf16* tile, const HeadRows<const Bf16>& rows, int first,
                            bool by_eight) {
  constexpr int kEights = kWidth / 8;
#pragma unroll 4
  for (int i = thread_index(); i < kRows * kEights; i += kThreadCount) {
    const int row = first + i / kEights;
    const int column = i % kEights * 8;
    const Bf16* from = rows.first + row * rows.step + column;
    Pack<Bf16, 8> eight;
    if (by_eight && row < rows.count && column < rows.width) {
      eight = load_pack<8>(from);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        eight.at[k] = row < rows.count && column + k < rows.width ? from[k] : Bf16{0};
      }
    }
    *reinterpret_cast<Pack<Bf16, 8>*>(tile + i / kEights * kHalvesStep<kWidth> + column) = eight;
  }
}

__device__ inline Floats<2> read_pair(const HeadRows<Bf16>& from, int row, int column) {
  auto two = zeros<2>();
  for (int k = 0; k < 2; ++k) {
    if (row < from.count && column + k < from.width) {
      two.at[k] = to_float(from.first[row * from.step + column + k]);
    }
  }
  return two;
}
__device__ inline void write_pair(const HeadRows<Bf16>& to, int row, int column,
                                  const Floats<2>& two) {
  if (row >= to.count || column >= to.width) return;
  Bf16* at = to.first + row * to.step + column;
  if (to.by_four) return store(at, two);
  for (int k = 0; k < 2; ++k) {
    if (column + k < to.width) at[k] = nearest_bf16(two.at[k]);
  }
}

// Queries of a call without keys, or keys without queries, are the caller's business.
void attention_forward_halves(const KernelPlace& place, const AttentionForward& call,
                              const AttentionShape& shape);

// Of heads up to this width; beyond it no thread has registers for its part of dK and dV.
inline constexpr int kWidestHalves = 128;
// All of the pass but projection and the end of dqueries.
void attention_backward_halves(const KernelPlace& place, const AttentionGradient<Bf16>& work,
                               bool arrival);

}  // namespace dettax
