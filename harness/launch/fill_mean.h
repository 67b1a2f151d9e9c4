#pragma once

#include <cstdint>

#include "harness/train/train_step.h"
#include "results/record.h"

namespace dettax {

// Memory fills per step of the steps that a group has run.
class FillMean {
 public:
  void add(const FillTotals& fills, int steps) {
    steps_ += steps;
    totals_.count += fills.count;
    totals_.bytes += fills.bytes;
    totals_.time_ns += fills.time_ns;
  }
  Fills per_step() const {
    if (steps_ == 0) return {};
    return {totals_.count / steps_, totals_.bytes / steps_,
            1e-9 * static_cast<double>(totals_.time_ns) / static_cast<double>(steps_)};
  }

 private:
  FillTotals totals_;
  int64_t steps_ = 0;
};

}  // namespace dettax
