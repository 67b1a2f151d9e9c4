#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/host/emulation.h"
#include "harness/device/number_format.h"
#include "tests/device/op_fixture.h"

namespace dettax::test {

// Memory as a device gives it: nothing but NaNs.
inline Buffer poisoned(size_t bytes) {
  auto* data = ::operator new(bytes, std::align_val_t{256});
  std::memset(data, 0xFF, bytes);
  return {data, bytes,
          [](void* memory, size_t) { ::operator delete(memory, std::align_val_t{256}); }};
}

// The CUDA kernels, emulated, for a device of few multiprocessors: enough for blocks to take turns and to meet in sums.
struct EmulatedKernels {
  explicit EmulatedKernels(int multiprocessors = 3)
      : kernels({nullptr, multiprocessors}, [](size_t bytes) { return poisoned(bytes); }) {}
  CudaKernels kernels;
  CudaKernels* operator->() { return &kernels; }
  void expect_no_faults() const { EXPECT_NO_THROW(CudaKernels::check_faults(*kernels.faults())); }
};

// bf16 numbers in memory, made from f32 ones and read back; so that one test can be run in both types.
class Numbers {
 public:
  Numbers(DType type, const Floats& values) : type_(type), count_(values.size()) {
    memory_ = poisoned(values.size() * size_of(type) + 16);
    for (size_t i = 0; i < count_; ++i) {
      if (type == DType::f32) {
        floats()[i] = values[i];
      } else {
        halves()[i] = static_cast<uint16_t>(encode(NumberFormat::bf16, values[i]));
      }
    }
  }
  Numbers(DType type, int64_t count)
      : Numbers(type, Floats(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN())) {
  }

  Tensor view(std::initializer_list<int64_t> shape) const {
    return make_tensor(memory_.data(), type_, shape);
  }
  Floats read() const {
    Floats values(count_);
    for (size_t i = 0; i < count_; ++i) {
      values[i] = type_ == DType::f32 ? floats()[i] : decode(NumberFormat::bf16, halves()[i]);
    }
    return values;
  }

 private:
  float* floats() const { return static_cast<float*>(memory_.data()); }
  uint16_t* halves() const { return static_cast<uint16_t*>(memory_.data()); }
  DType type_;
  size_t count_;
  Buffer memory_;
};

// What a CPU sees of numbers of that type.
inline Floats rounded_to(DType type, Floats values) {
  if (type == DType::bf16) {
    for (float& v : values) v = round_to(NumberFormat::bf16, v);
  }
  return values;
}
// Of results that were computed in f32 and stored in that type: twice its unit.
inline double tolerance_of(DType type) { return type == DType::bf16 ? 0x1p-7 : 2e-6; }
inline const DType kTypes[] = {DType::f32, DType::bf16};

// Under many schedules `run` gives the same bits; with its twin that proves that a schedule can show.
inline void expect_one_result(const std::function<Floats()>& run, int schedules = 6) {
  const Floats first = run();
  for (ScheduleSeed seed = 1; seed <= static_cast<ScheduleSeed>(schedules); ++seed) {
    const ScheduleOf schedule(seed);
    EXPECT_TRUE(same_bits(first, run())) << "schedule " << seed;
  }
}
inline void expect_results_to_differ(const std::function<Floats()>& run, int schedules = 20) {
  const Floats first = run();
  for (ScheduleSeed seed = 1; seed <= static_cast<ScheduleSeed>(schedules); ++seed) {
    const ScheduleOf schedule(seed);
    if (!same_bits(first, run())) return;
  }
  ADD_FAILURE() << "the fast kernel gave the same bits under every schedule";
}
inline void expect_only_fast_differs(const std::function<Floats(Order)>& run) {
  expect_results_to_differ([&] { return run(Order::arrival); });
  expect_one_result([&] { return run(Order::ordered); });
  expect_one_result([&] { return run(Order::invariant); });
}
inline const Order kOrders[] = {Order::arrival, Order::ordered, Order::invariant};

}  // namespace dettax::test
