#include "tests/cuda/emulated/emulated_device.h"

#include "harness/device/cuda/runtime/cuda_device.h"
#include "tests/cuda/standins/cudart.h"

namespace dettax::test {

std::unique_ptr<Device> make_emulated_device(int ordinal, uint64_t seed) {
  static const FakeCuda fake(StreamOrder::random, seed, size_t{1} << 30);
  return make_cuda_device(ordinal);
}

}  // namespace dettax::test
