#pragma once

// What every kernel is made of. The sources are compiled twice: by nvcc for a device and by the C++ compiler for the host, where
// host/emulation.h stands in for CUDA's words. This file, matrix_unit.cuh and launch.cuh are the only ones that tell the two apart.

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#else
#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda/host/streams.h"
#endif

namespace dettax {

// A number of the format bf16 where it is stored; sums and functions are in f32.
struct Bf16 {
  uint16_t bits;
};

#if defined(__CUDACC__)
__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_threads() { return static_cast<int>(blockDim.x); }
__device__ inline int64_t block_index() { return blockIdx.x; }
__device__ inline int64_t grid_blocks() { return gridDim.x; }
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}
__device__ inline void pass_cycles(int64_t cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__device__ inline Bf16 nearest_bf16(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
// Four floats at an address that is a multiple of 16: one transaction where the device has it.
__device__ inline void atomic_add_four(float* to, const float* values) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to), make_float4(values[0], values[1], values[2], values[3]));
#else
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, values[i]);
#endif
}
__device__ inline void atomic_add_pair(Bf16* to, float first, float second) {
  atomicAdd(reinterpret_cast<__nv_bfloat162*>(to), __floats2bfloat162_rn(first, second));
}
__device__ inline void atomic_add_one(Bf16* to, float value) {
  atomicAdd(reinterpret_cast<__nv_bfloat16*>(to), __float2bfloat16_rn(value));
}
#else
inline int thread_index() { return EmulatedDevice::of_this_thread().place().thread; }
inline int block_threads() { return EmulatedDevice::of_this_thread().place().threads; }
inline int64_t block_index() { return EmulatedDevice::of_this_thread().place().block; }
inline int64_t grid_blocks() { return EmulatedDevice::of_this_thread().place().blocks; }
template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(EmulatedDevice::of_this_thread().dynamic_shared());
}
// Nothing passes here; but kernels that come after find another order, as they do where others hold the multiprocessors.
inline void pass_cycles(int64_t cycles) {
  EmulatedDevice::of_this_thread().disturb(static_cast<ScheduleSeed>(cycles));
}
inline Bf16 nearest_bf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}
inline void atomic_add_four(float* to, const float* values) {
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, values[i]);
}
inline void atomic_add_one(Bf16* to, float value) {
  const auto now = __uint_as_float(uint32_t{to->bits} << 16U);
  const auto rounded = __uint_as_float(uint32_t{nearest_bf16(value).bits} << 16U);
  *to = nearest_bf16(now + rounded);
}
inline void atomic_add_pair(Bf16* to, float first, float second) {
  atomic_add_one(to, first);
  atomic_add_one(to + 1, second);
}
#endif

inline constexpr uint32_t kWholeWarp = 0xFFFFFFFFU;
__device__ inline int lane_index() { return thread_index() % 32; }
__device__ inline int warp_index() { return thread_index() / 32; }
__device__ inline int block_warps() { return block_threads() / 32; }
__device__ inline int64_t grid_thread() { return block_index() * block_threads() + thread_index(); }
__device__ inline int64_t grid_threads() { return grid_blocks() * block_threads(); }
__device__ inline int64_t grid_warp() { return grid_thread() / 32; }
__device__ inline int64_t grid_warps() { return grid_threads() / 32; }

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bf16 value) {
  return __uint_as_float(uint32_t{value.bits} << 16U);
}
template <class T>
struct Stored;
template <>
struct Stored<float> {
  static __device__ float of(float value) { return value; }
};
template <>
struct Stored<Bf16> {
  static __device__ Bf16 of(float value) { return nearest_bf16(value); }
};
template <class T>
__device__ T stored(float value) {
  return Stored<T>::of(value);
}

// Numbers that one thread moves at once: 16 bytes where rows allow it (kWide), else one number.
template <class T>
inline constexpr int kWide = static_cast<int>(16 / sizeof(T));

template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T at[static_cast<size_t>(kCount)];
};
template <int kCount>
using Floats = Pack<float, kCount>;

template <int kCount, class T>
__device__ inline Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <int kCount, class T>
__device__ inline Floats<kCount> load(const T* from) {
  const auto pack = load_pack<kCount>(from);
  Floats<kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.at[i] = to_float(pack.at[i]);
  return values;
}
template <int kCount, class T>
__device__ inline void store(T* to, const Floats<kCount>& values) {
  Pack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.at[i] = stored<T>(values.at[i]);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}
template <int kCount>
__device__ inline Floats<kCount> zeros() {
  Floats<kCount> values;
#pragma unroll
  for (int i = 0; i < kCount; ++i) values.at[i] = 0.0f;
  return values;
}

// to += values, as atomics wide as the device allows.
template <int kCount>
__device__ inline void atomic_add(float* to, const Floats<kCount>& values) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) atomic_add_four(to + i, values.at + i);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) atomicAdd(to + i, values.at[i]);
  }
}
template <int kCount>
__device__ inline void atomic_add(Bf16* to, const Floats<kCount>& values) {
  if constexpr (kCount % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) atomic_add_pair(to + i, values.at[i], values.at[i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) atomic_add_one(to + i, values.at[i]);
  }
}

// Division by a number that is fixed for a launch, as a multiplication (Granlund and Montgomery, PLDI 1994): a device has no
// instruction for the quotient of integers, and what only moves memory would otherwise spend its time on finding rows. Exact below
// 2^32.
class Divider {
 public:
  explicit Divider(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor)) {
    while ((uint64_t{1} << shift_) < divisor_) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - divisor_;
    magic_ = static_cast<uint32_t>((excess << 32U) / divisor_ + 1);
  }
  __device__ int64_t quotient(int64_t n) const {
    const auto number = static_cast<uint32_t>(n);
    return static_cast<int64_t>((uint64_t{__umulhi(number, magic_)} + number) >> shift_);
  }
  __device__ int64_t rest(int64_t n) const { return n - quotient(n) * divisor_; }

 private:
  uint32_t divisor_, magic_ = 0, shift_ = 0;
};

// Rows of `width` numbers, cut into packs: the i-th pack of all.
template <int kCount>
class PackedRows {
 public:
  struct Place {
    int64_t row, column;
  };
  PackedRows(int64_t rows, int64_t width)
      : count_(rows * (width / kCount)), packs_(width / kCount) {}
  __device__ __host__ int64_t count() const { return count_; }
  __device__ Place place(int64_t i) const { return {packs_.quotient(i), packs_.rest(i) * kCount}; }

 private:
  int64_t count_;
  Divider packs_;
};

// The sum over the lanes of a warp, by the binary tree aligned at lane 0; every lane gets it.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) value += __shfl_xor_sync(kWholeWarp, value, apart);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, apart));
  }
  return value;
}

// Over all threads of a block, again by the tree aligned at thread 0 (so the order is fixed); every thread gets it. kSums at once.
template <size_t kSums>
__device__ inline void block_sums(float (&values)[kSums]) {
  __shared__ float parts[kSums][32];
#pragma unroll
  for (size_t k = 0; k < kSums; ++k) {
    values[k] = warp_sum(values[k]);
    if (lane_index() == 0) parts[k][warp_index()] = values[k];
  }
  __syncthreads();
#pragma unroll
  for (size_t k = 0; k < kSums; ++k) {
    values[k] = warp_sum(lane_index() < block_warps() ? parts[k][lane_index()] : 0.0f);
  }
  __syncthreads();
}
__device__ inline float block_sum(float value) {
  float values[1] = {value};
  block_sums(values);
  return values[0];
}
__device__ inline float block_max(float value) {
  __shared__ float parts[32];
  value = warp_max(value);
  if (lane_index() == 0) parts[warp_index()] = value;
  __syncthreads();
  value = warp_max(lane_index() < block_warps() ? parts[lane_index()] : parts[0]);
  __syncthreads();
  return value;
}

// Sums of addends 0, 1, ... as they come by the binary tree aligned at 0: ((0+1)+(2+3))+...; the same as adding the sums of two halves
// that are a power of two long.
class TreeSum {
 public:
  __device__ void add(float value) {
    const uint32_t before = count_++;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((before >> static_cast<uint32_t>(level) & 1U) == 0) {
        partial_[level] = value;
        break;
      }
      value = partial_[level] + value;
    }
  }
  __device__ float sum() const {
    float value = 0;
    bool any = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((count_ >> static_cast<uint32_t>(level) & 1U) == 0) continue;
      value = any ? partial_[level] + value : partial_[level];
      any = true;
    }
    return value;
  }

 private:
  static constexpr int kLevels = 20;  // a million addends
  float partial_[kLevels];
  uint32_t count_ = 0;
};

// What kernels found wrong with numbers they were given: bits of a word that the host reads when it waits.
enum class KernelFault : uint32_t { token = 1, target = 2, expert = 4 };
__device__ inline void report(uint32_t* faults, KernelFault fault) {
  atomicOr(faults, static_cast<uint32_t>(fault));
}

}  // namespace dettax
