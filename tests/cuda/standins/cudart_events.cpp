// Events of the CUDA runtime: see cudart.cpp.

#include "tests/cuda/standins/cudart_events.h"

#include <random>

#include <cuda_runtime_api.h>

#include "harness/device/cuda/host/streams.h"

namespace dettax::test {

uint64_t& event_times_seed() {
  static thread_local uint64_t seed = 0;
  return seed;
}

}  // namespace dettax::test

using dettax::EmulatedStreams;

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's
extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = EmulatedStreams::of_this_thread().create_event();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  EmulatedStreams::of_this_thread().destroy_event(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  EmulatedStreams::of_this_thread().record(event, stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  EmulatedStreams::of_this_thread().wait_for(event);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EmulatedStreams& streams = EmulatedStreams::of_this_thread();
  if (!streams.happened(begin) || !streams.happened(end)) return cudaErrorNotReady;
  uint64_t& seed = dettax::test::event_times_seed();
  *milliseconds = seed == 0 ? 1.0F : static_cast<float>(1 + std::mt19937_64(seed++)() % 1000);
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
