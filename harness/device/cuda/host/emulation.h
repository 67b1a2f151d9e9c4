#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

// CUDA's words for device code, for a compiler that knows none of them: kernels run on the host, a block after the other, each thread
// of a block a fibre that runs until it meets the others at a barrier or in a warp's exchange. Proves what a kernel computes, never
// how fast. Restricted on purpose to what our kernels use: one dimension, whole warps, full masks. What a device would leave undefined
// (a barrier that some threads miss, lanes that call different functions, a launch beyond a limit) throws Error{internal} with the
// thread and the line.

namespace dettax {

// Where a thread of a kernel is.
struct ThreadPlace {
  int thread = 0, threads = 0;
  int64_t block = 0, blocks = 0;
};

// The order in which blocks run, and runnable threads of a block are resumed. 0: first in, first out; else drawn from it.
using ScheduleSeed = uint64_t;

// Where threads of a warp hand each other values; those that meet must have come from the same call.
using Here = std::source_location;

// One emulated multiprocessor for each thread of the host.
class EmulatedDevice {
 public:
  static constexpr int kMaxThreads = 1024;
  static constexpr size_t kMaxSharedBytes =
      size_t{227} << 10;  // the opt-in limit of compute capability 9.0 and 10.0

  static EmulatedDevice& of_this_thread();
  EmulatedDevice();
  ~EmulatedDevice();
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;

  void set_schedule(ScheduleSeed seed) {
    schedule_ = seed;
    disturbance_ = 0;
  }
  // Kernels that are run from now on find another order, until the next set_schedule.
  void disturb(ScheduleSeed by) { disturbance_ = by; }
  ScheduleSeed schedule() const { return schedule_ ^ disturbance_; }
  // Runs `body` once for every thread of every block. Dynamic shared memory begins full of NaNs.
  void run(int64_t blocks, int threads, size_t shared_bytes, const std::function<void()>& body);

  // The rest is for kernels.
  const ThreadPlace& place() const { return place_; }
  std::byte* dynamic_shared() { return shared_.get(); }
  void barrier(const Here& here);
  // Every lane of the warp leaves a value and sees all 32.
  const uint64_t* exchange(uint64_t value, const Here& here);

 private:
  struct Fibre;
  struct Warp;
  struct Switches;

  void run_block(int64_t block, int threads, const std::function<void()>& body);
  void start_fibres(int threads);
  int next_runnable();
  void wait(const Here& here);
  void stop(const char* what, const Here& here);
  [[noreturn]] void report_deadlock();

  ThreadPlace place_;
  ScheduleSeed schedule_ = 0, disturbance_ = 0;
  bool in_turn_ = true;  // the kernel that runs
  uint64_t drawn_ = 0;
  std::unique_ptr<std::byte[]> shared_;
  std::unique_ptr<std::byte[]> stacks_;
  std::unique_ptr<Switches> switches_;
  std::vector<Fibre> fibres_;
  std::vector<Warp> warps_;
  std::vector<int> runnable_;  // a queue; its front is at runnable_[first_]
  size_t first_ = 0;
  int ended_ = 0, at_barrier_ = 0;
  Here barrier_;
  std::string fault_;
  bool abandoned_ = false;  // fibres of the last kernel never came to their end
};

// Blocks and threads in the order of `seed` while it lives.
class ScheduleOf {
 public:
  explicit ScheduleOf(ScheduleSeed seed) { EmulatedDevice::of_this_thread().set_schedule(seed); }
  ~ScheduleOf() { EmulatedDevice::of_this_thread().set_schedule(0); }
  ScheduleOf(const ScheduleOf&) = delete;
  ScheduleOf& operator=(const ScheduleOf&) = delete;
};

template <class T>
uint64_t bits_of(const T& value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline int lane_of_this_thread() { return EmulatedDevice::of_this_thread().place().thread % 32; }

}  // namespace dettax

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static thread_local

// NOLINTBEGIN(readability-identifier-naming): the words are CUDA's
inline void __syncthreads(const dettax::Here& here = dettax::Here::current()) {
  dettax::EmulatedDevice::of_this_thread().barrier(here);
}
inline void __syncwarp(const dettax::Here& here = dettax::Here::current()) {
  dettax::EmulatedDevice::of_this_thread().exchange(0, here);
}
template <class T>
T __shfl_xor_sync(uint32_t, T value, int mask, const dettax::Here& here = dettax::Here::current()) {
  const uint64_t* all =
      dettax::EmulatedDevice::of_this_thread().exchange(dettax::bits_of(value), here);
  return dettax::from_bits<T>(all[dettax::lane_of_this_thread() ^ mask]);
}
template <class T>
T __shfl_sync(uint32_t, T value, int lane, const dettax::Here& here = dettax::Here::current()) {
  const uint64_t* all =
      dettax::EmulatedDevice::of_this_thread().exchange(dettax::bits_of(value), here);
  return dettax::from_bits<T>(all[lane % 32]);
}
template <class T>
T __shfl_up_sync(uint32_t, T value, int by, const dettax::Here& here = dettax::Here::current()) {
  const uint64_t* all =
      dettax::EmulatedDevice::of_this_thread().exchange(dettax::bits_of(value), here);
  const int lane = dettax::lane_of_this_thread();
  return lane < by ? value : dettax::from_bits<T>(all[lane - by]);
}
inline uint32_t __match_any_sync(uint32_t, int value,
                                 const dettax::Here& here = dettax::Here::current()) {
  const uint64_t* all =
      dettax::EmulatedDevice::of_this_thread().exchange(dettax::bits_of(value), here);
  uint32_t same = 0;
  for (int lane = 0; lane < 32; ++lane) {
    same |= static_cast<uint32_t>(all[lane] == dettax::bits_of(value)) << lane;
  }
  return same;
}

// One thread of the host runs all threads of a device, so that these need no atomic instruction.
template <class T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to = static_cast<T>(old + value);
  return old;
}
template <class T>
T atomicMax(T* to, T value) {
  const T old = *to;
  if (old < value) *to = value;
  return old;
}
inline uint32_t atomicOr(uint32_t* to, uint32_t value) {
  const uint32_t old = *to;
  *to |= value;
  return old;
}

inline int __popc(uint32_t value) { return __builtin_popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32U);
}
inline uint32_t __float_as_uint(float value) {
  return dettax::from_bits<uint32_t>(dettax::bits_of(value));
}
inline float __uint_as_float(uint32_t bits) { return dettax::from_bits<float>(bits); }
// NOLINTEND(readability-identifier-naming)
