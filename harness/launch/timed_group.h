#pragma once

#include <string>

#include "harness/launch/launcher.h"
#include "harness/measure/measure.h"

namespace dettax {

// A group of processes as the measuring loop sees it: adds the guards to each block.
class TimedGroup : public TimedArm {
 public:
  explicit TimedGroup(ArmGroup& group) : group_(group) {}
  const std::string& name() const override { return group_.spec().arm; }
  Block run_steps(int steps) override;

 private:
  ArmGroup& group_;
};

}  // namespace dettax
