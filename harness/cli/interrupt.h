#pragma once

#include <optional>

#include "harness/launch/descriptor.h"

namespace dettax {

// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process but are seen here, so that the run can end in order. The first one
// that was seen gives the signals back their usual effect: a second one ends the process at once (and the kernel its workers).
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  ~InterruptWatch();

  // Turns readable when a signal is there.
  int descriptor() const { return signals_.get(); }
  // Whether a signal is there that nobody has taken: it ends the process once this goes.
  bool pending() const;
  // The first signal that came, if any.
  std::optional<int> signal();

 private:
  Descriptor signals_;
  std::optional<int> seen_;
};

}  // namespace dettax
