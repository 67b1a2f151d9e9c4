#pragma once

#include <cstdint>
#include <type_traits>

#include "harness/device/cuda/launch.cuh"

namespace dettax {

// A row in the registers of a block: thread t has packs t, t + threads, ...
template <class T, int kCount, int kItems>
class RowItems {
 public:
  __device__ RowItems(const T* row, int64_t width) : width_(width) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t column = column_of(item);
      if (column < width) packs_[item] = load_pack<kCount>(row + column);
    }
  }
  // f(item, column, numbers) for what this thread has.
  template <class F>
  __device__ void for_each(const F& f) const {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const int64_t column = column_of(item);
      if (column < width_) f(item, column, at(item));
    }
  }
  __device__ Floats<kCount> at(int item) const {
    Floats<kCount> values;
#pragma unroll
    for (int k = 0; k < kCount; ++k) values.at[k] = to_float(packs_[item].at[k]);
    return values;
  }

 private:
  __device__ static int64_t column_of(int item) {
    return (int64_t{item} * block_threads() + thread_index()) * kCount;
  }
  int64_t width_;
  Pack<T, kCount> packs_[static_cast<size_t>(kItems)];
};

// Threads of a block whose threads keep kItems packs: as many as have registers for them. Kernels say so in __launch_bounds__.
template <int kItems>
inline constexpr int kMostThreads = kItems == 4 ? 512 : 256;

// f(packs a thread keeps, threads of a block) for a row of `packs`.
template <class F>
void by_row_items(int64_t packs, const F& f) {
  const auto fits = [&](auto items) {
    constexpr int kItems = decltype(items)::value;
    if (packs > int64_t{kItems} * kMostThreads<kItems>) return false;
    f(items, threads_for(blocks_for(packs, kItems), kMostThreads<kItems>));
    return true;
  };
  if (fits(std::integral_constant<int, 1>()) || fits(std::integral_constant<int, 4>()) ||
      fits(std::integral_constant<int, 16>())) {
    return;
  }
  throw Error(ErrorKind::unsupported,
              "a norm over rows this wide is not implemented on CUDA: at most 16384 numbers of f32 "
              "or 32768 of bf16, if they are whole packs of 16 bytes; else 4096");
}

}  // namespace dettax
