#pragma once

#include "harness/plan/knobs.h"

namespace dettax {

// Sum order of a reduction, and whether work is handed out dynamically (which breaks Order::ordered on purpose: its partial sums
// belong to threads).
struct SumOrder {
  Order order = Order::ordered;
  bool dynamic_schedule = false;
};

}  // namespace dettax
