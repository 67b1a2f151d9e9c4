#pragma once

#include <string>

#include "results/analysis/projection/determinism_cost.h"
#include "results/analysis/projection/op_table.h"

namespace dettax {

// Puts measured ratios of an operation's variants in place of the ranges, for the knobs that the mode changes and the table has in both
// variants: embedding, norm, experts, generic index operations. `only` limits them to one knob.
void use_measured_factors(DeterminismCost& cost, const OpTable& table, const Mode& mode,
                          const Mode& fast, const Model& model, Precision precision,
                          const std::string& only);

}  // namespace dettax
