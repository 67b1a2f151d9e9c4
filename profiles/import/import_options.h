#pragma once

#include <string>

namespace dettax {

struct ImportOptions {
  // Ranges that mark steps: those of this name with a number behind it, e.g. "iteration" for "iteration 12". Empty: the names that
  // trainers commonly use (ProfilerStep#N, step N, iteration N, ...).
  std::string step_name;
  // Take what can be read of a damaged file, and count what cannot. Without it damage is an Error.
  bool salvage = false;
};

}  // namespace dettax
