#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

namespace dettax {

// Finds the fastest of several algorithms in calls that are made anyway: two of each, of which the second is timed by events. The host
// waits once, after the last of them.
class AlgorithmTrial {
 public:
  explicit AlgorithmTrial(size_t candidates) : candidates_(candidates) {}
  ~AlgorithmTrial();
  AlgorithmTrial(const AlgorithmTrial&) = delete;
  AlgorithmTrial& operator=(const AlgorithmTrial&) = delete;

  bool over() const { return calls_ == kCalls * candidates_; }
  size_t candidate() const { return calls_ / kCalls; }  // whose turn it is
  // Around a call.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream);
  size_t fastest();  // when it is over

 private:
  static constexpr size_t kCalls = 2;
  bool timed() const { return calls_ % kCalls == kCalls - 1; }
  void record(cudaStream_t stream);

  size_t candidates_;
  size_t calls_ = 0;
  std::vector<cudaEvent_t> events_;  // two a candidate
};

}  // namespace dettax
