#pragma once

#include "results/analysis/acceptance/rules.h"

namespace dettax {

// Waits, in bounds, until a machine has settled: a stress test that has just ended is no defect. Settled is two readings in a row at
// or under the limit; one may be a gap in the work.
class IdleWait {
 public:
  enum class Answer { wait, settled, gave_up };
  explicit IdleWait(const AcceptanceRules& rules)
      : limit_(rules.idle_busy_ratio), timeout_seconds_(rules.idle_timeout_seconds) {}
  // A reading of the share in use, taken so long after the first.
  Answer take(double busy_ratio, double elapsed_seconds) {
    quiet_ = busy_ratio <= limit_ ? quiet_ + 1 : 0;
    if (quiet_ >= kQuietReadings) return Answer::settled;
    return elapsed_seconds >= timeout_seconds_ ? Answer::gave_up : Answer::wait;
  }

 private:
  static constexpr int kQuietReadings = 2;
  double limit_, timeout_seconds_;
  int quiet_ = 0;
};

}  // namespace dettax
