#include "harness/device/cuda/runtime/algorithm_trial.h"

#include <algorithm>
#include <vector>

#include "harness/device/cuda/runtime/check.h"

namespace dettax {
namespace {

constexpr float kLeastGainRatio = 0.03F;

class Events {
 public:
  Events() = default;
  ~Events() {
    for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    require_success(cudaEventCreate(&event), "cudaEventCreate");
    events_.push_back(event);
    require_success(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void wait_for_last() const {
    require_success(cudaEventSynchronize(events_.back()), "cudaEventSynchronize");
  }
  // From one record to the next.
  float milliseconds_after(size_t record) const {
    float milliseconds = 0;
    require_success(cudaEventElapsedTime(&milliseconds, events_[record], events_[record + 1]),
                    "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace

size_t fastest_of(size_t candidates, cudaStream_t stream,
                  const std::function<void(size_t)>& enqueue) {
  Events events;
  for (size_t i = 0; i < candidates; ++i) {
    for (size_t call = 0; call < kTrialCalls; ++call) {
      enqueue(i);
      events.record(stream);
    }
  }
  events.wait_for_last();
  std::vector<float> least;
  for (size_t i = 0; i < candidates; ++i) {
    const size_t first = i * kTrialCalls;
    least.push_back(events.milliseconds_after(first));
    for (size_t call = 1; call + 1 < kTrialCalls; ++call) {
      least.back() = std::min(least.back(), events.milliseconds_after(first + call));
    }
  }
  return fastest_by(least);
}

size_t fastest_by(std::span<const float> milliseconds) {
  const auto least = std::ranges::min_element(milliseconds);
  if (*least >= milliseconds.front() * (1 - kLeastGainRatio)) return 0;
  return static_cast<size_t>(least - milliseconds.begin());
}

}  // namespace dettax
