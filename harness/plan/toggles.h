#pragma once

#include <string>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// One knob between two modes: the fast one with this knob alone as the other has it, and the other with this knob alone as fast has it.
struct Toggle {
  std::string knob;
  TaxPart part = TaxPart::ordering;
  Mode alone, without;
};

// Every knob that the modes have otherwise and that the case has something for, as the catalog orders them; then "environment", if they
// have other library settings. None of the modes made claims anything.
std::vector<Toggle> toggles(const Case& planned, const Mode& fast, const Mode& mode);

// Fast with these toggles taken in.
Mode with_toggles(const Mode& fast, const Mode& mode, const std::vector<std::string>& knobs);

}  // namespace dettax
