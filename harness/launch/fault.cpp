#include "harness/launch/fault.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

namespace dettax {
namespace {

// "micro3/forward/..." -> "forward/...": a fault that names no micro-batch strikes the first that
// comes.
std::string_view without_micro_batch(std::string_view path) {
  if (!path.starts_with("micro")) return path;
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool names(const Injection& fault, std::string_view path) {
  return path.starts_with(fault.op) || without_micro_batch(path).starts_with(fault.op);
}

bool is_nan(const Injection& fault) { return fault.kind == "nan" || fault.kind == "nan_once"; }

void strike_process(const Injection& fault) {
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

}  // namespace

FaultObserver::FaultObserver(const ArmSpec& spec, int rank, Device& device) : device_(device) {
  for (const Injection& injection : spec.planned.injections) {
    // The fast mode's name means the fast arm alone, not control.
    const bool named =
        injection.arm == spec.arm || (spec.arm != "control" && injection.arm == spec.mode.name);
    if (injection.rank == rank && (injection.arm.empty() || named)) faults_.push_back({injection});
  }
}

bool FaultObserver::due_now(const Fault& fault, int64_t step) const {
  return fault.what.kind != "slow" && fault.what.step == step && !fault.spent;
}

bool FaultObserver::due(int64_t step) const {
  return std::any_of(faults_.begin(), faults_.end(),
                     [&](const Fault& fault) { return due_now(fault, step); });
}

double FaultObserver::slow_ratio(int64_t step) const {
  double ratio = 0;
  for (const Fault& fault : faults_) {
    if (fault.what.kind == "slow" && fault.what.step <= step) ratio += fault.what.ratio;
  }
  return ratio;
}

void FaultObserver::begin_step(int64_t step, StepObserver* next) {
  step_ = step;
  next_ = next;
  for (Fault& fault : faults_) {
    fault.struck = false;
    if (due_now(fault, step) && fault.what.op.empty()) strike_process(fault.what);
  }
}

void FaultObserver::end_step() {
  for (Fault& fault : faults_) {
    if (!due_now(fault, step_)) continue;
    if (!fault.struck) {
      throw Error(ErrorKind::config,
                  fmt::format("injection {}: no op of step {} begins with \"{}\"", fault.what.kind,
                              step_, fault.what.op));
    }
    fault.spent = fault.what.kind == "nan_once";
  }
}

void FaultObserver::on_op(std::string_view path) {
  if (next_ != nullptr) next_->on_op(path);
  for (Fault& fault : faults_) {
    if (due_now(fault, step_) && names(fault.what, path)) strike_process(fault.what);
  }
}

void FaultObserver::on_tensor(std::string_view path, std::string_view tensor_name,
                              const Tensor& tensor, uint64_t first_index) {
  for (Fault& fault : faults_) {
    if (!due_now(fault, step_) || fault.struck || !is_nan(fault.what)) continue;
    if (tensor.type != DType::f32 || !names(fault.what, path)) continue;
    poison(device_, tensor);
    fault.struck = true;
  }
  if (next_ != nullptr) next_->on_tensor(path, tensor_name, tensor, first_index);
}

}  // namespace dettax
