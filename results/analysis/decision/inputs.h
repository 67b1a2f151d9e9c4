#pragma once

#include <string>
#include <vector>

#include "harness/plan/override.h"
#include "results/analysis/decision/economics.h"

namespace dettax {

// One input of a decision: what is taken, and how far it may be off.
struct DecisionInput {
  std::string name;
  double value = 0, low = 0, high = 0;
  std::string source;
  bool given = false;    // by the user; else a default
  bool missing = false;  // nobody has it but the user, and it was not given: only its band is known
};

struct DecisionInputs {
  std::vector<DecisionInput> inputs;  // in the order of input_names()
  const DecisionInput& named(const std::string& name) const;
  Economics economics() const;                                  // at the values
  Economics with(const std::string& name, double value) const;  // and one input at another
  std::vector<std::string> missing() const;
};

const std::vector<std::string>& input_names();
double& economics_value(Economics& e, const std::string& name);

// Defaults of configs/decisions/defaults.yaml under the keys of a file (empty: none) and overrides. Throws Error{config} on a key that does
// not exist, a negative price, a probability above 1, a band that does not hold its value.
DecisionInputs load_decision_inputs(const std::string& file,
                                    const std::vector<Override>& overrides);

}  // namespace dettax
