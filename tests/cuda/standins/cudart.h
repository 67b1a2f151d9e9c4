#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

#include "harness/device/cuda/host/streams.h"

namespace dettax::test {

// The stand-in for the CUDA runtime while it lives: one device without a driver. Streams of every thread run in the given order.
// Device memory cannot be touched by the host but while work of a stream runs; its first MiB is full of 0xFF when it is given out, and
// what is written behind its end shows when it is freed. Asynchronous copies need pinned memory at the host's side, which is stricter than
// CUDA.
class FakeCuda {
 public:
  explicit FakeCuda(StreamOrder order = StreamOrder::eager, uint64_t seed = 0,
                    size_t capacity_bytes = size_t{256} << 20);
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // The n-th call from now on, launches of kernels too, fails with that status and does nothing; frees are done all the same.
  void fail_call(int64_t n, cudaError_t status = cudaErrorLaunchFailure);
  int64_t calls() const;            // since then
  std::string failed_call() const;  // the name of the one that did; empty while none has

  size_t live_allocations() const;  // of the device, pinned ones and streams
  size_t most_bytes() const;        // of the device, at once
  int overruns() const;             // allocations that were written behind their end
};

}  // namespace dettax::test
