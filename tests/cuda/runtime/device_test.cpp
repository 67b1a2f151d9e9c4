#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/base/fingerprint.h"
#include "harness/device/cuda/host/emulation.h"
#include "harness/device/cuda/runtime/check.h"
#include "harness/device/cuda/runtime/cuda_device.h"
#include "harness/device/cuda/runtime/handles.h"
#include "tests/cuda/standins/cudart.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infrastructure);
    return error.what();
  }
  return "nothing was thrown";
}

struct OrderAndSeed {
  StreamOrder order;
  uint64_t seed;
};
constexpr OrderAndSeed kOrders[] = {
    {StreamOrder::eager, 0}, {StreamOrder::lazy, 0}, {StreamOrder::random, 1}};

// A buffer of that device with those numbers.
struct OnDevice {
  OnDevice(Device& device, const Floats& values)
      : buffer(device.allocate(values.size() * sizeof(float))),
        tensor(make_tensor(buffer.data(), DType::f32, {static_cast<int64_t>(values.size())})) {
    device.copy_from_host(tensor.data, values.data(), values.size() * sizeof(float));
  }
  Floats read(Device& device) const {
    Floats values(static_cast<size_t>(tensor.count()));
    device.copy_to_host(values.data(), tensor.data, values.size() * sizeof(float));
    return values;
  }
  Buffer buffer;
  Tensor tensor;
};

TEST(CudaDevice, SaysWhatItIs) {
  const FakeCuda fake;
  EXPECT_EQ(
      make_cuda_device(0)->description(),
      "cuda, emulated device, compute capability 9.0, 3 multiprocessors, driver for CUDA 13.0, "
      "runtime " +
          std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10));
  EXPECT_THAT(message_of([] { make_cuda_device(7); }),
              AllOf(HasSubstr("cudaSetDevice"), HasSubstr("invalid device ordinal")));
}

// More than the pinned memory holds, so that its end is met; what the host handed over is overwritten at once.
TEST(CudaDevice, CopiesWhateverWasHandedOver) {
  for (const auto& [order, seed] : kOrders) {
    const FakeCuda fake(order, seed);
    const auto device = make_cuda_device(0);
    Floats values(3'000'000);
    std::iota(values.begin(), values.end(), 0.0F);
    const Floats right = values;
    const OnDevice large(*device, values);
    Floats few = {1, 2, 3};
    const OnDevice small(*device, few);
    std::fill(values.begin(), values.end(), -1.0F);
    few = {7, 7, 7};
    EXPECT_TRUE(same_bits(large.read(*device), right));
    EXPECT_TRUE(same_bits(small.read(*device), {1, 2, 3}));
  }
}

TEST(CudaDevice, TakesTheFingerprintsOfACpu) {
  const FakeCuda fake(StreamOrder::lazy);
  const auto device = make_cuda_device(0);
  const auto cpu = make_cpu_device(1, false);
  Floats values = random_floats(6 * 37, 3);
  const OnDevice here(*device, values);
  const Tensor matrix = make_tensor(here.tensor.data, DType::f32, {6, 37});
  const Tensor on_cpu = make_tensor(values.data(), DType::f32, {6, 37});
  EXPECT_EQ(device->fingerprint(matrix, 5), cpu->fingerprint(on_cpu, 5));
  EXPECT_EQ(device->fingerprint_rows(matrix, 5, 100), cpu->fingerprint_rows(on_cpu, 5, 100));
  std::vector<FingerprintPart> parts = {{matrix, 5}, {matrix, 0, 41}, {matrix, 99}};
  std::vector<FingerprintPart> parts_on_cpu = {{on_cpu, 5}, {on_cpu, 0, 41}, {on_cpu, 99}};
  EXPECT_EQ(device->fingerprints(parts), cpu->fingerprints(parts_on_cpu));
  const int64_t before = fake.calls();
  const auto many = device->fingerprints(std::vector<FingerprintPart>(40, parts.front()));
  EXPECT_EQ(many.back(), cpu->fingerprint(on_cpu, 5));
  // Memory for the results, a fill, a launch each, one copy and one wait.
  EXPECT_LE(fake.calls() - before, 40 + 8);
}

TEST(CudaDevice, FindsWhatIsNotFinite) {
  const FakeCuda fake(StreamOrder::lazy);
  const auto device = make_cuda_device(0);
  Floats values(1000, 1.0F);
  EXPECT_TRUE(device->all_finite(OnDevice(*device, values).tensor));
  values[997] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(device->all_finite(OnDevice(*device, values).tensor));
}

TEST(CudaDevice, ThrowsWhatAKernelFoundWrongWhereTheHostWaits) {
  const FakeCuda fake(StreamOrder::lazy);
  const auto device = make_cuda_device(0);
  const OnDevice table(*device, Floats(4 * 8));
  const OnDevice y(*device, Floats(2 * 8));
  const Buffer tokens = device->allocate(2 * sizeof(int32_t));
  const int32_t beyond[] = {1, 4};
  device->copy_from_host(tokens.data(), beyond, sizeof beyond);
  device->synchronize();
  device->ops().embedding_forward({make_tensor(y.tensor.data, DType::f32, {2, 8}),
                                   make_tensor(tokens.data(), DType::i32, {2}),
                                   make_tensor(table.tensor.data, DType::f32, {4, 8}),
                                   {}});
  try {
    device->synchronize();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a token beyond its table"));
  }
}

TEST(CudaDevice, SaysInWordsThatMemoryIsUsedUp) {
  const FakeCuda fake;
  const auto device = make_cuda_device(0);
  const Buffer fits = device->allocate(size_t{100} << 20);
  EXPECT_THAT(message_of([&] { device->allocate(size_t{300} << 20); }),
              AllOf(HasSubstr("cudaMalloc of 300 MiB"), HasSubstr("out of memory")));
}

// Delays reach kernels: with them a sum in order of arrival differs, and one in a fixed order does not.
TEST(CudaDevice, JitterChangesTheOrderOfBlocks) {
  const FakeCuda fake;
  const ScheduleOf in_turn(0);
  const auto device = make_cuda_device(0);
  const OnDevice values(*device, cancelling_floats(40'000, 5));
  const OnDevice result(*device, {0});
  const auto sum = [&](Order order, uint64_t seed) {
    device->set_jitter(seed);
    device->ops().sum_of_squares({result.tensor, values.tensor, false, {order, false}});
    return result.read(*device)[0];
  };
  int fast = 0;
  int ordered = 0;
  const float first_fast = sum(Order::arrival, 0);
  const float first_ordered = sum(Order::ordered, 0);
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    fast += sum(Order::arrival, seed) != first_fast ? 1 : 0;
    ordered += sum(Order::ordered, seed) != first_ordered ? 1 : 0;
    device->synchronize();
  }
  EXPECT_GT(fast, 0);
  EXPECT_EQ(ordered, 0);
}

// ---- what the stand-in is there to find

TEST(FakeCuda, TheHostCannotTouchDeviceMemory) {
  const FakeCuda fake;
  const auto device = make_cuda_device(0);
  const OnDevice one(*device, {1});
  EXPECT_DEATH(static_cast<float*>(one.buffer.data())[0] = 2, "");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the process of a death test
  EXPECT_DEATH(std::exit(static_cast<float*>(one.buffer.data())[0] > 2 ? 1 : 0), "");
}

TEST(FakeCuda, ShowsAMissingWait) {
  for (const bool waits : {true, false}) {
    const FakeCuda fake(StreamOrder::lazy);
    const StreamHandle stream;
    const PinnedMemory host(4);
    void* memory = nullptr;
    require_success(cudaMalloc(&memory, 4), "cudaMalloc");
    std::memset(host.data(), 1, 4);
    require_success(cudaMemcpyAsync(memory, host.data(), 4, cudaMemcpyHostToDevice, stream.get()),
                    "cudaMemcpyAsync");
    if (waits) stream.synchronize();
    std::memset(host.data(), 2, 4);  // too early without the wait
    require_success(cudaMemcpyAsync(host.data(), memory, 4, cudaMemcpyDeviceToHost, stream.get()),
                    "cudaMemcpyAsync");
    stream.synchronize();
    EXPECT_EQ(host.data()[0], std::byte{waits ? uint8_t{1} : uint8_t{2}});
    require_success(cudaFree(memory), "cudaFree");
  }
}

TEST(FakeCuda, RefusesCopiesOfTheWrongKindOrSize) {
  const FakeCuda fake;
  const StreamHandle stream;
  const PinnedMemory host(64);
  void* memory = nullptr;
  require_success(cudaMalloc(&memory, 64), "cudaMalloc");
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream.get());
  };
  std::byte pageable[64];
  EXPECT_EQ(copy(memory, host.data(), 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(memory, host.data(), 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(memory, host.data(), 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(memory, pageable, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(fake.live_allocations(), 3U);
  require_success(cudaFree(memory), "cudaFree");
}

TEST(FakeCuda, CountsWhatIsNotFreedAndWhatIsWrittenBehindItsEnd) {
  const FakeCuda fake;
  void* memory = nullptr;
  {
    const StreamHandle stream;
    require_success(cudaMalloc(&memory, 10), "cudaMalloc");
    enqueue_on(stream.get(), [=] { static_cast<char*>(memory)[10] = 0; });
  }
  EXPECT_EQ(fake.live_allocations(), 1U);
  EXPECT_EQ(fake.overruns(), 0);
  require_success(cudaFree(memory), "cudaFree");
  EXPECT_EQ(fake.live_allocations(), 0U);
  EXPECT_EQ(fake.overruns(), 1);
}

TEST(FakeCuda, FreshMemoryIsNoNumber) {
  const FakeCuda fake(StreamOrder::lazy);
  const auto device = make_cuda_device(0);
  const Buffer buffer = device->allocate(64);
  EXPECT_FALSE(device->all_finite(make_tensor(buffer.data(), DType::f32, {16})));
}

}  // namespace
}  // namespace dettax::test
