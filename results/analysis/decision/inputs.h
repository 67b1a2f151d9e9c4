#pragma once

#include <optional>
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

// The fewest knobs of a mode whose ordering alone keeps the bits equal, and what these cost.
struct KnobSubset {
  std::vector<std::string> knobs;
  double value = 0, low = 0, high = 0;  // overhead, 0.02 = 2 % longer
  std::string source;
  std::string refusal;  // why none is known; then nothing else is
};

struct DecisionInputs {
  std::vector<DecisionInput> inputs;   // in the order of input_names()
  std::optional<KnobSubset> cheapest;  // nothing where nobody looked for it
  bool tax_unresolved =
      false;  // the overhead is the interval of a run that did not resolve it; its value is the middle, and no result
  const DecisionInput& named(const std::string& name) const;
  Economics economics() const;  // at the values
  std::vector<std::string> missing() const;
  DecisionInputs with_input(const DecisionInput& input) const;  // a copy with that one replaced
};

const std::vector<std::string>& input_names();
double& economics_value(Economics& e, const std::string& name);

// Defaults of configs/decisions/defaults.yaml under the keys of a file (empty: none) and overrides. A file may hold `cheapest_subset` too:
// {knobs: [gemm, attention], value, low, high, source}. Throws Error{config} on a key that does not exist, a negative price, a probability
// above 1, a number beyond all sense, windows of no time with anomalies inside, a band that does not hold its value, a knob that does not exist.
DecisionInputs load_decision_inputs(const std::string& file,
                                    const std::vector<Override>& overrides);

}  // namespace dettax
