#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace dettax {

// A stream that waits for no other: not for the null stream either.
class StreamHandle {
 public:
  StreamHandle();
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// Memory of the host that a device copies from and to by itself, while the host goes on.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Copies between the host's own memory and the device, on a stream. What the host hands over is its own again when the call returns;
// the copy itself may come later. Only when the pinned memory is used up does a copy to the device wait for earlier ones.
class Staging {
 public:
  Staging(const StreamHandle& stream, size_t bytes) : stream_(stream), memory_(bytes) {}
  void to_device(void* to, const void* from, size_t bytes);
  void to_host(void* to, const void* from, size_t bytes);

 private:
  const StreamHandle& stream_;
  PinnedMemory memory_;
  size_t used_ = 0;  // by copies that may not be done
};

}  // namespace dettax
