// A kernel that computes nothing and takes multiprocessors from the others: stress for evidence.

#include "harness/device/cuda/launch.cuh"

namespace dettax {
namespace {

constexpr int kHoldingThreads =
    1024;  // two such blocks leave a multiprocessor no place for another

__global__ void __launch_bounds__(kHoldingThreads) hold(int64_t cycles) { pass_cycles(cycles); }

}  // namespace

void hold_multiprocessors(CudaStream stream, int64_t blocks, int64_t cycles) {
  launch(stream, {blocks, kHoldingThreads}, hold, cycles);
}

}  // namespace dettax
