#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.h"
#include "harness/launch/protocol.h"
#include "harness/plan/case.h"
#include "harness/train/observer.h"

namespace dettax {

// Strikes one rank of one arm with the faults a case injects, from inside the step; passes
// everything on to `next`. Attached only for the steps that a fault names, so that all other steps
// run as they always do.
class FaultObserver : public StepObserver {
 public:
  FaultObserver(const ArmSpec& spec, int rank, Device& device);

  // Whether a crash, hang or nan is due in this step.
  bool due(int64_t step) const;
  // Arms the faults of this step; those that name no op strike here.
  void begin_step(int64_t step, StepObserver* next);
  // Error{config} if a fault of this step found no op of its name: an injection that does nothing
  // would be a false test.
  void end_step();
  // Sum of the ratios by which this step is to be longer.
  double slow_ratio(int64_t step) const;

  void on_op(std::string_view path) override;
  void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                 uint64_t first_index) override;

 private:
  struct Fault {
    Injection what;
    bool struck = false;  // in this step
    bool spent = false;   // nan_once: struck before
  };
  bool due_now(const Fault& fault, int64_t step) const;

  Device& device_;
  std::vector<Fault> faults_;
  int64_t step_ = 0;
  StepObserver* next_ = nullptr;
};

}  // namespace dettax
