#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/device/ops.h"
#include "harness/device/tensor.h"

namespace dettax {

// Memory of a device. Freed when it goes; must not outlive its device. Contents are not initialised.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t bytes, std::function<void(void*, size_t)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::function<void(void*, size_t)> release_;
};

// Elements that fingerprint() takes, or with a stride rows that fingerprint_rows() takes.
struct FingerprintPart {
  Tensor tensor;
  uint64_t first_index = 0;
  uint64_t row_stride = 0;  // 0: the elements follow each other in the whole tensor too
};

// One accelerator, or one rank's share of a CPU. Not shared between ranks; its calls come from one host thread. Calls are issued in
// program order and may complete later; synchronize() waits for all of them.
class Device {
 public:
  virtual ~Device() = default;
  virtual Buffer allocate(size_t bytes) = 0;
  virtual Ops& ops() = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, size_t bytes) = 0;
  virtual Fingerprint fingerprint(const Tensor& tensor, uint64_t first_index = 0) = 0;
  // The same where rows lie `stride` elements apart in the whole tensor: row r begins at first_index + r * stride.
  virtual Fingerprint fingerprint_rows(const Tensor& tensor, uint64_t first_index,
                                       uint64_t stride) = 0;
  // Of many parts at once, index as in `parts`: cheaper than one by one where most are small.
  virtual std::vector<Fingerprint> fingerprints(std::span<const FingerprintPart> parts) {
    std::vector<Fingerprint> out;
    out.reserve(parts.size());
    for (const FingerprintPart& part : parts)
      out.push_back(part.row_stride == 0
                        ? fingerprint(part.tensor, part.first_index)
                        : fingerprint_rows(part.tensor, part.first_index, part.row_stride));
    return out;
  }
  // True if every element of an f32 tensor is finite.
  virtual bool all_finite(const Tensor& tensor) = 0;
  virtual void synchronize() = 0;
  // Stress for evidence, never in timed steps: from now on compute threads take up their work, and synchronize() returns, after random
  // delays drawn from `seed`, so that sums in order of arrival really change their order. 0: off. Ordered and invariant variants keep
  // their bits.
  virtual void set_jitter(uint64_t seed) = 0;
  virtual std::string description() const = 0;
  // Whether products round what they read to that format by themselves, where a call says so; else they are given rounded numbers.
  virtual bool rounds_operands(NumberFormat /*format*/) const { return false; }
};

// A CPU device with `threads` compute threads (the calling thread is one of them). `spin` lets idle threads poll for a moment before
// they sleep; switch it off when threads outnumber cores.
// `cores`: the one each thread but the caller is bound to, by thread; empty: none.
std::unique_ptr<Device> make_cpu_device(int threads, bool spin, const std::vector<int>& cores = {});

}  // namespace dettax
