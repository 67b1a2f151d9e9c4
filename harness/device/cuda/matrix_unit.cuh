#pragma once

// Products of bf16 matrices with f32 sums on tensor cores (compute capability 8.0 and above), a warp at a time. With device_code.cuh and
// launch.cuh the only file that tells a device from its emulation, which has the same places of numbers in lanes and adds in order of k.

#include <cstdint>

#include "harness/device/cuda/device_code.cuh"

namespace dettax {

// A lane's part of a 16 x 16 left operand; of 16 x 8 sums: rows lane / 4 and 8 below, columns 2 (lane % 4) and the next.
struct LeftMatrix {
  uint32_t at[4];
};
struct MatrixSums {
  float at[4];
};
// Of four 8 x 8 matrices: row lane / 4, columns 2 (lane % 4) and the next; transposed: rows and columns exchanged.
struct FourMatrices {
  uint32_t at[4];
};

#if defined(__CUDACC__)
// sums += left * right, of which right0 has the first 8 rows and right1 the other 8.
__device__ inline void multiply_add(MatrixSums& sums, const LeftMatrix& left, uint32_t right0,
                                    uint32_t right1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\n"
      : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3])
      : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right0),
        "r"(right1));
}
// Lanes 8 i to 8 i + 7 say where the rows of matrix i begin in shared memory, at multiples of 16 bytes.
template <bool kTransposed>
__device__ inline FourMatrices load_matrices(const Bf16* row) {
  FourMatrices m;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(m.at[0]), "=r"(m.at[1]), "=r"(m.at[2]), "=r"(m.at[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(m.at[0]), "=r"(m.at[1]), "=r"(m.at[2]), "=r"(m.at[3])
                 : "r"(address));
  }
  return m;
}
__device__ inline void atomic_add_two(float* to, float first, float second) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float2*>(to), make_float2(first, second));
#else
  atomicAdd(to, first);
  atomicAdd(to + 1, second);
#endif
}
#else
inline void multiply_add(MatrixSums& sums, const LeftMatrix& left, uint32_t right0, uint32_t right1,
                         const Here& here = Here::current()) {
  struct Operands {
    LeftMatrix left;
    uint32_t right[2];
  };
  const Operands own{left, {right0, right1}};
  auto& device = EmulatedDevice::of_this_thread();
  const uint64_t* all = device.exchange(bits_of(&own), here);
  const auto half = [](uint32_t word, int odd) {
    return __uint_as_float(odd != 0 ? word & 0xFFFF0000U : word << 16U);
  };
  const int lane = lane_of_this_thread();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8;
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const auto& of_row = *from_bits<const Operands*>(all[row % 8 * 4 + k % 8 / 2]);
      const auto& of_column = *from_bits<const Operands*>(all[column * 4 + k % 8 / 2]);
      sums.at[i] +=
          half(of_row.left.at[row / 8 + k / 8 * 2], k % 2) * half(of_column.right[k / 8], k % 2);
    }
  }
  device.exchange(0, here);  // operands of others are read until here
}
template <bool kTransposed>
FourMatrices load_matrices(const Bf16* row, const Here& here = Here::current()) {
  const uint64_t* all = EmulatedDevice::of_this_thread().exchange(bits_of(row), here);
  const int lane = lane_of_this_thread();
  FourMatrices m;
  for (int i = 0; i < 4; ++i) {
    uint32_t word = 0;
    for (int odd = 0; odd < 2; ++odd) {
      const int across = lane % 4 * 2 + odd;
      const auto* from = from_bits<const Bf16*>(all[i * 8 + (kTransposed ? across : lane / 4)]);
      word |= uint32_t{from[kTransposed ? lane / 4 : across].bits} << (16 * odd);
    }
    m.at[i] = word;
  }
  return m;
}
inline void atomic_add_two(float* to, float first, float second) {
  atomicAdd(to, first);
  atomicAdd(to + 1, second);
}
#endif

// Operands from tiles in shared memory with kStep numbers from a row to the next; `tile` begins with the operand's first.
template <int kStep>
__device__ LeftMatrix left_of(const Bf16* tile) {
  const int lane = lane_index();
  const auto m = load_matrices<false>(tile + lane % 16 * kStep + lane / 16 * 8);
  return {{m.at[0], m.at[1], m.at[2], m.at[3]}};
}
// The tile holds the operand's columns as rows.
template <int kStep>
__device__ LeftMatrix left_of_columns(const Bf16* tile) {
  const int lane = lane_index();
  const auto m = load_matrices<true>(tile + (lane % 8 + lane / 16 * 8) * kStep + lane / 8 % 2 * 8);
  return {{m.at[0], m.at[1], m.at[2], m.at[3]}};
}
// Right operands of 16 rows for two neighbouring sums of 8 columns each: at[0] and at[1], at[2] and at[3]. The tile holds their columns
// as rows.
template <int kStep>
__device__ FourMatrices right_of_columns(const Bf16* tile) {
  const int lane = lane_index();
  return load_matrices<false>(tile + (lane % 8 + lane / 16 * 8) * kStep + lane / 8 % 2 * 8);
}
template <int kStep>
__device__ FourMatrices right_of(const Bf16* tile) {
  const int lane = lane_index();
  return load_matrices<true>(tile + lane % 16 * kStep + lane / 16 * 8);
}

__device__ inline uint32_t bf16_pair(float first, float second) {
  return uint32_t{nearest_bf16(first).bits} | uint32_t{nearest_bf16(second).bits} << 16U;
}
// Two neighbouring matrices of sums, rounded, are a left operand.
__device__ inline LeftMatrix left_of_sums(const MatrixSums& first, const MatrixSums& second) {
  return {{bf16_pair(first.at[0], first.at[1]), bf16_pair(first.at[2], first.at[3]),
           bf16_pair(second.at[0], second.at[1]), bf16_pair(second.at[2], second.at[3])}};
}

// A warp's 16 rows of sums, kTiles times 8 columns.
template <int kTiles>
struct WarpSums {
  MatrixSums at[static_cast<size_t>(kTiles)];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) at[n].at[i] = 0.0f;
    }
  }
  __device__ void add(int pair, const LeftMatrix& left, const FourMatrices& right) {
    multiply_add(at[2 * pair], left, right.at[0], right.at[1]);
    multiply_add(at[2 * pair + 1], left, right.at[2], right.at[3]);
  }
  // f(number of the tile, of the sum in it, row, first of two columns, two sums)
  template <class F>
  __device__ void for_each_pair(const F& f) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        f(lane_index() / 4 + half * 8, n * 8 + lane_index() % 4 * 2, at[n].at[2 * half],
          at[n].at[2 * half + 1]);
      }
    }
  }
  // f(row, column, sum), which it may change.
  template <class F>
  __device__ void for_each(const F& f) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        f(lane_index() / 4 + i / 2 * 8, n * 8 + lane_index() % 4 * 2 + i % 2, at[n].at[i]);
      }
    }
  }
};

// sums = the warp's 16 rows of `left` times rows of `right`, both kWidth numbers long.
template <int kWidth, int kStep, int kTiles>
__device__ WarpSums<kTiles> warp_row_products(const Bf16* left, const Bf16* right) {
  WarpSums<kTiles> sums;
  sums.clear();
#pragma unroll 1
  for (int k = 0; k < kWidth; k += 16) {
    const auto rows = left_of<kStep>(left + k);
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      sums.add(pair, rows, right_of_columns<kStep>(right + pair * 16 * kStep + k));
    }
  }
  return sums;
}

// sums += weights, rounded, times rows of `right`.
template <int kStep, int kDepthTiles, int kTiles>
__device__ void add_weighted_rows(const WarpSums<kDepthTiles>& weights, const Bf16* right,
                                  WarpSums<kTiles>& sums) {
#pragma unroll
  for (int k = 0; k < kDepthTiles / 2; ++k) {
    const auto left = left_of_sums(weights.at[2 * k], weights.at[2 * k + 1]);
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      sums.add(pair, left, right_of<kStep>(right + k * 16 * kStep + pair * 16));
    }
  }
}

}  // namespace dettax
