#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include <dlfcn.h>

#include "tests/cupti/fake/fake_cupti.h"

namespace dettax {

inline FakeCupti& fake_cupti_of(const char* library) {
  void* handle = dlopen(library, RTLD_NOW);
  auto* entry = reinterpret_cast<FakeCuptiEntry*>(dlsym(handle, "fake_cupti"));
  return *entry();
}

// A thread of the host that launches, and streams that work one piece after another, as records of the fake CUPTI. Its clock moves only
// by what is done.
class FakeDevice {
 public:
  static constexpr int64_t kCallNs = 4000, kLatencyNs = 2000;
  static constexpr uint32_t kThread = 77;

  FakeDevice(FakeCupti& cupti, int64_t now_ns, uint32_t thread = kThread)
      : cupti_(cupti), now_ns_(now_ns), thread_(thread) {}

  int64_t now_ns() const { return now_ns_; }
  void pass(int64_t ns) { now_ns_ += ns; }

  template <typename Record>
  void emit(const Record& record, bool unasked = false) {
    cupti_.emit(&record, sizeof(record), unasked);
  }

  uint32_t call(CUpti_CallbackId id, int64_t length_ns = kCallNs) {
    CUpti_ActivityAPI api{};
    api.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    api.cbid = id;
    api.threadId = thread_;
    api.correlationId = ++correlation_;
    api.start = static_cast<uint64_t>(now_ns_);
    now_ns_ += length_ns;
    api.end = static_cast<uint64_t>(now_ns_);
    emit(api);
    return correlation_;
  }

  CUpti_ActivityKernel10 kernel_record(const char* name, uint32_t correlation, int64_t start_ns,
                                       int64_t end_ns, uint32_t stream = 7) {
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = name;
    kernel.correlationId = correlation;
    kernel.start = static_cast<uint64_t>(start_ns);
    kernel.end = static_cast<uint64_t>(end_ns);
    kernel.contextId = 1;
    kernel.streamId = stream;
    return kernel;
  }

  // Launches a kernel behind what its stream has; its end.
  int64_t kernel(const char* name, int64_t length_ns, uint32_t stream = 7) {
    const uint32_t correlation = call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    int64_t& free_ns = streams_[stream];
    const int64_t start = std::max(now_ns_ + kLatencyNs, free_ns);
    free_ns = start + length_ns;
    emit(kernel_record(name, correlation, start, free_ns, stream));
    return free_ns;
  }

  // Waits for a stream.
  void synchronize(uint32_t stream = 7) {
    const int64_t length = std::max(kCallNs, streams_[stream] + 1000 - now_ns_);
    call(CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, length);
  }

  uint32_t last_correlation() const { return correlation_; }

 private:
  FakeCupti& cupti_;
  int64_t now_ns_;
  const uint32_t thread_;
  uint32_t correlation_ = 0;
  std::map<uint32_t, int64_t> streams_;
};

}  // namespace dettax
