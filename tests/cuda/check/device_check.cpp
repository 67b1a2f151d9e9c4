#include "tests/cuda/check/device_check.h"

#include <cmath>
#include <set>

#include "harness/comm/communicator.h"
#include "harness/train/train_step.h"
#include "tests/cuda/check/operations.h"
#include "tests/train/small_cases.h"

namespace dettax::test {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace): helpers of tests

// The device is let go while what it is made of is there.
class DeviceCheck : public testing::Test {
 protected:
  static void TearDownTestSuite() { let_go_of_device(); }
};

// At odd sizes, and where a device is no emulation also at those of wide accesses and tensor cores.
std::vector<CheckedOperation> operations_to_check() {
  std::vector<CheckedOperation> all = checked_operations(1);
  if (scale_of_check() == 1) return all;
  for (CheckedOperation& large : checked_operations(scale_of_check())) {
    large.name += ", large";
    all.push_back(std::move(large));
  }
  return all;
}

std::vector<Floats> results_on(Device& device, const CheckedOperation& operation, SumOrder sum) {
  Side side(device, &device == &device_under_check());
  const std::vector<Tensor> tensors = operation.run(side, sum);
  device.synchronize();
  std::vector<Floats> results;
  for (const Tensor& tensor : tensors) results.push_back(side.read(tensor));
  return results;
}

bool same_results(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

// In `runs` more runs under other schedules.
bool keeps_its_bits(const CheckedOperation& operation, SumOrder sum, uint64_t runs) {
  Device& device = device_under_check();
  const std::vector<Floats> first = results_on(device, operation, sum);
  bool same = true;
  for (uint64_t seed = 1; same && seed <= runs; ++seed) {
    disturb(seed);
    same = same_results(first, results_on(device, operation, sum));
  }
  disturb(0);
  return same;
}

TEST_F(DeviceCheck, EveryOperationComputesWhatACpuDoes) {
  const auto cpu = make_cpu_device(2, false);
  for (const CheckedOperation& operation : operations_to_check()) {
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      if (order != Order::ordered && !operation.has_orders) continue;
      SCOPED_TRACE(operation.name + " " + std::to_string(static_cast<int>(order)));
      const auto right = results_on(*cpu, operation, {order});
      const auto found = results_on(device_under_check(), operation, {order});
      ASSERT_EQ(found.size(), right.size());
      for (size_t i = 0; i < found.size(); ++i) {
        if (operation.tolerance == 0) {
          EXPECT_TRUE(same_bits(found[i], right[i])) << "result " << i;
        } else {
          expect_close(found[i], to_doubles(right[i]), operation.tolerance, "result");
        }
      }
    }
  }
}

TEST_F(DeviceCheck, FixedOrdersKeepTheirBitsAndArrivalNeedNot) {
  std::set<std::string> differed;
  for (const CheckedOperation& operation : operations_to_check()) {
    EXPECT_TRUE(keeps_its_bits(operation, {Order::ordered}, 4)) << operation.name;
    if (!operation.has_orders) continue;
    EXPECT_TRUE(keeps_its_bits(operation, {Order::invariant}, 4)) << operation.name;
    if (!keeps_its_bits(operation, {Order::arrival, true}, 20)) differed.insert(operation.name);
  }
  EXPECT_GE(differed.size(), 2U) << "orders of arrival did not show: equal bits prove little here";
}

TEST_F(DeviceCheck, AFingerprintIsThatOfACpu) {
  const auto cpu = make_cpu_device(2, false);
  const int64_t count = 100'003 * scale_of_check();
  const Floats values = random_floats(count, 1);
  std::vector<Fingerprint> found;
  for (Device* device : {cpu.get(), &device_under_check()}) {
    Side side(*device, false);
    found.push_back(device->fingerprint(side.put(values, {count}), 17));
  }
  EXPECT_EQ(found[0], found[1]);
  Side side(device_under_check(), false);
  EXPECT_NE(device_under_check().fingerprint(side.put(values, {count}), 18), found[0]);
}

struct Trained {
  std::vector<float> losses;
  Log log;
};
Trained train_on(Device& device, const Case& planned, const Mode& mode) {
  const auto alone = std::move(make_thread_communicators(1, false)[0]);
  TrainStep train(planned, mode, device, *alone);
  RankRun rank{train, device, *alone};
  Trained trained;
  trained.log = record_rank(rank, planned.seed, 1);
  train.reset(planned.seed);
  for (int i = 0; i < 2; ++i) trained.losses.push_back(train.step().loss);
  return trained;
}

// One of them where the device is emulated: tests/cuda/runtime has the others there.
std::vector<Model> checked_models() {
  if (scale_of_check() == 1) return {small_moe()};
  return {small_gpt(), small_llama(), small_moe()};
}

TEST_F(DeviceCheck, StepsLoseWhatACpuLosesAndRepeatTheirBits) {
  const auto cpu = make_cpu_device(2, false);
  for (const Model& model : checked_models()) {
    Case planned = small_case(model);
    planned.batch = {2, 4, 6};
    for (const Mode& mode : {fast(), deterministic(), invariant()}) {
      SCOPED_TRACE(model.name + " " + mode.name);
      const Trained right = train_on(*cpu, planned, mode);
      const Trained first = train_on(device_under_check(), planned, mode);
      for (size_t i = 0; i < right.losses.size(); ++i)
        EXPECT_NEAR(first.losses[i], right.losses[i], 1e-5F * std::abs(right.losses[i]));
      if (mode.name == "fast") continue;
      disturb(7);
      EXPECT_EQ(first_difference(first.log, train_on(device_under_check(), planned, mode).log), "");
      disturb(0);
    }
  }
}

}  // namespace
}  // namespace dettax::test
