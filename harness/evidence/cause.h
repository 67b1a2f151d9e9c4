#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/evidence/ledger.h"
#include "harness/plan/knobs.h"

namespace dettax {

// The knob that decides the order of the sums behind a tensor of an op, by the op's path; nothing where no sum has an order to choose.
std::optional<Knob> ordering_knob(std::string_view path, std::string_view tensor);

// What kind of thing a first difference is, and what to do about it.
struct Cause {
  std::string
      name;  // "collective order", "order of sums: attention", "accumulation precision", "no order of sums"; empty where nothing differs
  std::string advice;  // knob and library settings
};
Cause cause_of(const LedgerComparison& comparison);

}  // namespace dettax
