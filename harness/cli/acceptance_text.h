#pragma once

#include <iosfwd>

#include "exporters/table.h"
#include "results/analysis/acceptance/acceptance.h"

namespace dettax {

// What `dettax accept` prints: the verdict with the nodes' names, what speaks against them, the map of nodes, what each rule judged, what
// qualifies it, and the commands that take nodes out.
void write_acceptance(std::ostream& out, const Acceptance& acceptance, const TableStyle& style);

// Rows that changed first.
void write_baseline_check(std::ostream& out, const BaselineCheck& check, const TableStyle& style);

}  // namespace dettax
