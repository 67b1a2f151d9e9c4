#include "harness/device/cuda/runtime/handles.h"

#include <algorithm>
#include <cstring>

#include "harness/device/cuda/runtime/check.h"

namespace dettax {

StreamHandle::StreamHandle() {
  require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
}

// What fails here has failed before, where somebody could be told.
StreamHandle::~StreamHandle() { static_cast<void>(cudaStreamDestroy(stream_)); }

void StreamHandle::synchronize() const {
  require_success(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

PinnedMemory::PinnedMemory(size_t bytes) : bytes_(bytes) {
  require_success(cudaMallocHost(&data_, bytes), "cudaMallocHost");
}

PinnedMemory::~PinnedMemory() { static_cast<void>(cudaFreeHost(data_)); }

void Staging::to_device(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (used_ == memory_.bytes()) {
      stream_.synchronize();
      used_ = 0;
    }
    const size_t part = std::min(bytes, memory_.bytes() - used_);
    std::byte* staged = memory_.data() + used_;
    std::memcpy(staged, source, part);
    used_ += part;
    require_success(cudaMemcpyAsync(target, staged, part, cudaMemcpyHostToDevice, stream_.get()),
                    "cudaMemcpyAsync to the device");
    target += part;
    source += part;
    bytes -= part;
  }
}

void Staging::to_host(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  // Behind all that is on its way to the device, so that the whole of the memory is free again.
  if (used_ > 0) stream_.synchronize();
  used_ = 0;
  while (bytes > 0) {
    const size_t part = std::min(bytes, memory_.bytes());
    require_success(
        cudaMemcpyAsync(memory_.data(), source, part, cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync to the host");
    stream_.synchronize();
    std::memcpy(target, memory_.data(), part);
    target += part;
    source += part;
    bytes -= part;
  }
}

}  // namespace dettax
