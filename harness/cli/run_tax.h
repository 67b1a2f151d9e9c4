#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/analysis/decision/inputs.h"
#include "results/record.h"

namespace dettax {

// A measured tax as a decision takes it. A gain counts as no cost: what determinism saves is not the question there.
struct RunTax {
  std::string name;                     // case/arm
  double value = 0, low = 0, high = 0;  // the value is the middle where it is not resolved
  bool resolved = true;                 // by the run; else it has no value, only an interval
  std::optional<KnobSubset>
      cheapest;  // by the ablation of this arm; nothing if its knobs were not turned
};
// Those that have an interval (tax_state.h), whether or not it decides against a limit; in the order of the records.
std::vector<RunTax> run_taxes(const std::vector<Record>& records);

}  // namespace dettax
