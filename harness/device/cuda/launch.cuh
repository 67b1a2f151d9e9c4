#pragma once

// From the host's side of a call to kernels: choosing a variant by type and alignment, and launching it.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "harness/base/error.h"
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/device_code.cuh"
#include "harness/device/tensor.h"
#if defined(__CUDACC__)
#include "harness/device/cuda/runtime/check.h"
#endif

namespace dettax {

inline constexpr int kThreads = 256;  // of a block, where nothing speaks for another number
// Dynamic shared memory that a block can have: 227 KiB from compute capability 9.0 on, less what kernels declare themselves.
inline constexpr size_t kSharedLimit = size_t{226} << 10;

struct LaunchShape {
  int64_t blocks = 1;
  int threads = kThreads;
  size_t shared_bytes = 0;
};

#if defined(__CUDACC__)
template <class... P, class... A>
void launch(CudaStream stream, const LaunchShape& shape, void (*kernel)(P...), A&&... arguments) {
  // Without asking a block has 48 KiB, of which kernels declare some themselves.
  if (shape.shared_bytes > (size_t{32} << 10)) {
    require_success(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)),
                    "cudaFuncSetAttribute");
  }
  kernel<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
           shape.shared_bytes, stream>>>(P(std::forward<A>(arguments))...);
  require_success(cudaGetLastError(), "kernel launch");
}

inline void set_bytes(CudaStream stream, void* to, unsigned char byte, size_t bytes) {
  require_success(cudaMemsetAsync(to, byte, bytes, stream), "cudaMemsetAsync");
}
inline void copy_bytes(CudaStream stream, void* to, const void* from, size_t bytes) {
  require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
                  "cudaMemcpyAsync");
}
#else
// As a device takes them: arguments by value at the time of the call, whenever it runs.
template <class... P, class... A>
void launch(CudaStream stream, const LaunchShape& shape, void (*kernel)(P...), A&&... arguments) {
  enqueue_on(stream, [shape, kernel, kept = std::tuple<P...>(P(std::forward<A>(arguments))...)] {
    EmulatedDevice::of_this_thread().run(shape.blocks, shape.threads, shape.shared_bytes,
                                         [&] { std::apply(kernel, kept); });
  });
}
inline void set_bytes(CudaStream stream, void* to, unsigned char byte, size_t bytes) {
  enqueue_on(stream, [=] { std::memset(to, byte, bytes); });
}
inline void copy_bytes(CudaStream stream, void* to, const void* from, size_t bytes) {
  enqueue_on(stream, [=] { std::memmove(to, from, bytes); });
}
#endif

inline int64_t blocks_for(int64_t count, int64_t per_block) {
  return (count + per_block - 1) / per_block;
}
// Enough blocks for `count` units, but no more than stay on the device at once: the rest is taken in turns.
inline int64_t grid_for(int64_t count, int64_t per_block, int multiprocessors) {
  return std::clamp<int64_t>(blocks_for(count, per_block), 1, int64_t{8} * multiprocessors);
}
// Threads for a row of `units`, whole warps.
inline int threads_for(int64_t units, int most = kThreads) {
  return static_cast<int>(std::clamp<int64_t>((units + 31) / 32 * 32, 32, most));
}

// Packs are counted in 32 bits: see Divider.
template <int kCount>
PackedRows<kCount> packed_rows(int64_t rows, int64_t width) {
  const PackedRows<kCount> packed(rows, width);
  if (packed.count() > UINT32_MAX) {
    throw Error(ErrorKind::unsupported,
                std::to_string(rows) + " rows of " + std::to_string(width) +
                    " numbers are too many for one call on CUDA; use a smaller micro-batch");
  }
  return packed;
}

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

// f(TypeTag<float>) or f(TypeTag<Bf16>).
template <class F>
void by_type(DType type, const F& f) {
  if (type == DType::f32) return f(TypeTag<float>());
  if (type == DType::bf16) return f(TypeTag<Bf16>());
  throw Error(ErrorKind::internal, "a CUDA kernel for numbers was given indices");
}

inline bool aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

// f(TypeTag<T>, numbers at once): 16 bytes if all pointers (null ones too) and all rows begin at multiples of it.
template <class F>
void by_type_and_width(DType type, int64_t columns, std::initializer_list<const void*> pointers,
                       const F& f) {
  by_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (columns % kWide<T> == 0 && aligned(pointers)) {
      f(tag, std::integral_constant<int, kWide<T>>());
    } else {
      f(tag, std::integral_constant<int, 1>());
    }
  });
}

// f(first element) for packs of kCount elements, and for what is left over one by one.
template <int kCount, class F>
__global__ void for_each_pack(int64_t count, F f) {
  const int64_t packs = count / kCount;
  for (int64_t i = grid_thread(); i < packs; i += grid_threads()) {
    f.template at<kCount>(i * kCount);
  }
  for (int64_t i = packs * kCount + grid_thread(); i < count; i += grid_threads()) {
    f.template at<1>(i);
  }
}
template <int kCount, class F>
void launch_for_each(const KernelPlace& on, int64_t count, const F& f) {
  if (count == 0) return;
  launch(on.stream, {grid_for(count, int64_t{kThreads} * kCount, on.multiprocessors)},
         for_each_pack<kCount, F>, count, f);
}

}  // namespace dettax
