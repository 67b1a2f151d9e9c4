#include "harness/launch/fault.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

namespace dettax {
namespace {

constexpr std::string_view kDelay = "delay";
constexpr std::string_view kReorder = "reorder";
constexpr std::string_view kNoVersion = "no_deterministic_version";
constexpr std::string_view kReorderCollectives = "reorder_collectives";
constexpr std::string_view kReorderElsewhere = "reorder_elsewhere";

bool reorders_collectives(const Injection& fault) {
  return fault.kind == kReorderCollectives || fault.kind == kReorderElsewhere;
}

// A fault that names no micro-batch strikes the first that comes.
bool names(const Injection& fault, std::string_view path) {
  return path.starts_with(fault.op) || without_micro_batch(path).starts_with(fault.op);
}

bool changes_values(const Injection& fault) {
  return fault.kind == "nan" || fault.kind == "nan_once" || fault.kind == kReorder ||
         reorders_collectives(fault);
}

bool strikes_tensor(const Injection& fault, std::string_view path, std::string_view tensor) {
  if (reorders_collectives(fault))
    return path.starts_with("reduce/") && !tensor.ends_with("before");
  return names(fault, path) && (fault.tensor.empty() || fault.tensor == tensor);
}

bool due(const Injection& fault, int64_t step, FaultInjector::Steps steps) {
  if (fault.kind == kReorder || reorders_collectives(fault)) return fault.step <= step;
  if (fault.kind == "slow" || fault.kind == kDelay) return false;
  return steps == FaultInjector::Steps::measured && fault.step == step;
}

void strike_process(const Injection& fault) {
  if (fault.kind == kNoVersion)
    throw Error(ErrorKind::nondeterministic, "an op without a deterministic version was put in");
  if (fault.kind == "crash") std::abort();
  if (fault.kind == "hang") {
    for (;;) ::pause();
  }
}

// As many as a stale cache line or two would hold.
constexpr int64_t kPoisonedValues = 32;

void poison(Device& device, const Tensor& tensor) {
  std::array<float, kPoisonedValues> values;
  values.fill(std::numeric_limits<float>::quiet_NaN());
  const int64_t count = std::min(kPoisonedValues, tensor.count());
  device.copy_from_host(tensor.data, values.data(), static_cast<size_t>(count) * sizeof(float));
  device.synchronize();
}

// Enough that two runs do not choose the same by chance.
constexpr int kReorderedValues = 16;
constexpr int kReorderedUlps = 8;

// Sums that were added in another order end a few units in the last place apart.
void reorder(Device& device, const Tensor& tensor, std::mt19937_64& random) {
  std::uniform_int_distribution<int64_t> any(0, tensor.count() - 1);
  std::uniform_int_distribution<int> ulps(1, kReorderedUlps);
  for (int i = 0; i < kReorderedValues; ++i) {
    float* const place = tensor.f32() + any(random);
    float value = 0;
    device.copy_to_host(&value, place, sizeof value);
    const int distance = ulps(random);
    for (int step = 0; step < distance; ++step) value = std::nextafter(value, 2 * value);
    device.copy_from_host(place, &value, sizeof value);
  }
  device.synchronize();
}

}  // namespace

bool strikes_arm(const Injection& fault, const ArmSpec& spec) {
  return fault.arm.empty() || fault.arm == spec.arm ||
         (spec.arm != "control" && fault.arm == spec.mode.name);
}

bool changes_bits(const Injection& fault, const ArmSpec& spec) {
  const bool elsewhere = spec.placement != RankPlacement::planned;
  if (fault.kind == kReorderElsewhere && !elsewhere) return false;
  return strikes_arm(fault, spec) && (fault.kind == kReorder || reorders_collectives(fault));
}

FaultInjector::FaultInjector(const ArmSpec& spec, int rank, Device& device, uint64_t group_seed)
    : device_(device), random_(std::random_device{}()), group_random_(group_seed) {
  for (const Injection& injection : spec.planned.injections) {
    const bool elsewhere = spec.placement != RankPlacement::planned;
    if (injection.kind == kReorderElsewhere && !elsewhere) continue;
    const bool here = injection.rank == rank || reorders_collectives(injection);
    if (here && strikes_arm(injection, spec)) faults_.push_back({injection});
  }
}

double FaultInjector::slow_ratio(int64_t step) const {
  double ratio = 0;
  for (const Fault& fault : faults_) {
    if (fault.what.kind == "slow" && fault.what.step <= step) ratio += fault.what.ratio;
  }
  return ratio;
}

bool FaultInjector::begin_step(int64_t step, Steps steps) {
  step_ = step;
  bool any = false;
  for (Fault& fault : faults_) {
    fault.armed = due(fault.what, step, steps) && !fault.spent;
    fault.struck = false;
    any = any || fault.armed;
    if (fault.armed && fault.what.op.empty()) strike_process(fault.what);
  }
  return any;
}

void FaultInjector::end_step() {
  for (Fault& fault : faults_) {
    if (!fault.armed) continue;
    fault.armed = false;
    if (!fault.struck) {
      const std::string& tensor = fault.what.tensor;
      throw Error(
          ErrorKind::config,
          fmt::format("injection {}: no op of step {} begins with \"{}\"{}", fault.what.kind, step_,
                      fault.what.op, tensor.empty() ? "" : " and has a tensor " + tensor));
    }
    fault.spent = fault.what.kind == "nan_once";
  }
}

void FaultInjector::on_op(std::string_view path) {
  for (const Fault& fault : faults_) {
    if (fault.armed && names(fault.what, path)) strike_process(fault.what);
  }
}

void FaultInjector::strike(const Fault& fault, const Tensor& tensor) {
  if (fault.what.kind == kReorder) {
    reorder(device_, tensor, random_);
  } else if (reorders_collectives(fault.what)) {
    reorder(device_, tensor, group_random_);
  } else {
    poison(device_, tensor);
  }
}

void FaultInjector::on_tensor(std::string_view path, std::string_view tensor_name,
                              const Tensor& tensor, uint64_t) {
  for (Fault& fault : faults_) {
    const bool once = !reorders_collectives(fault.what);
    if (!fault.armed || (once && fault.struck) || !changes_values(fault.what)) continue;
    if (tensor.type != DType::f32 || !strikes_tensor(fault.what, path, tensor_name)) continue;
    strike(fault, tensor);
    fault.struck = true;
  }
}

OpDelays::OpDelays(const ArmSpec& spec, int rank) {
  for (const Injection& injection : spec.planned.injections) {
    if (injection.kind == kDelay && injection.rank == rank && strikes_arm(injection, spec))
      delays_.push_back(injection);
  }
}

void OpDelays::listen(TrainStep& step, OpListener* behind) {
  behind_ = behind;
  step.listen(delays_.empty() ? behind : this);
}

// As work would, on the core.
void OpDelays::pass(double seconds) {
  if (seconds <= 0) return;
  const auto start = std::chrono::steady_clock::now();
  int64_t passed_ns = 0;
  while (static_cast<double>(passed_ns) < 1e9 * seconds)
    passed_ns = (std::chrono::steady_clock::now() - start).count();
  delayed_ns_ += passed_ns;
}

void OpDelays::on_op(const char* path, OpKind kind) {
  if (behind_ != nullptr) behind_->on_op(path, kind);
  double seconds = 0;
  for (const Injection& delay : delays_) {
    if (std::string_view(path).starts_with(without_micro_batch(delay.op))) seconds += delay.seconds;
  }
  const bool communicates = kind == OpKind::communication;
  communication_delay_seconds_ = communicates ? seconds : 0;
  if (!communicates) pass(seconds);
}

void OpDelays::on_idle() {
  communication_delay_seconds_ = 0;
  if (behind_ != nullptr) behind_->on_idle();
}

void OpDelays::on_wait() {
  if (behind_ != nullptr) behind_->on_wait();
  pass(communication_delay_seconds_);
}

void OpDelays::on_communicated(const Communication& communication) {
  if (behind_ != nullptr) behind_->on_communicated(communication);
}

void OpDelays::on_handed_over(const Communication& message) {
  if (behind_ != nullptr) behind_->on_handed_over(message);
}

}  // namespace dettax
