#include "harness/device/cuda/runtime/algorithm_trial.h"

#include "harness/device/cuda/runtime/check.h"

namespace dettax {

AlgorithmTrial::~AlgorithmTrial() {
  for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
}

void AlgorithmTrial::begin(cudaStream_t stream) {
  if (timed()) record(stream);
}

void AlgorithmTrial::end(cudaStream_t stream) {
  if (timed()) record(stream);
  ++calls_;
}

size_t AlgorithmTrial::fastest() {
  require_success(cudaEventSynchronize(events_.back()), "cudaEventSynchronize");
  size_t best = 0;
  float least_milliseconds = 0;
  for (size_t i = 0; i < candidates_; ++i) {
    float milliseconds = 0;
    require_success(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]),
                    "cudaEventElapsedTime");
    if (i == 0 || milliseconds < least_milliseconds) {
      best = i;
      least_milliseconds = milliseconds;
    }
  }
  return best;
}

void AlgorithmTrial::record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  require_success(cudaEventCreate(&event), "cudaEventCreate");
  events_.push_back(event);
  require_success(cudaEventRecord(event, stream), "cudaEventRecord");
}

}  // namespace dettax
