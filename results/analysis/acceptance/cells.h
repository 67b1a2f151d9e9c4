#pragma once

#include <string>
#include <vector>

#include "harness/plan/suite.h"

namespace dettax {

// Which cases of a suite a budget is spent on.
struct CellChoice {
  std::vector<size_t> chosen;    // indices of cases, the most telling first
  std::vector<size_t> left_out;  // in the suite's order
};

// Greedily the case that adds most that no chosen one has shown yet: knobs that act, axes of the layout, several nodes, the
// precision, the model. A case is chosen only while every chosen one can have at least half of its planned measuring time; the first
// always is.
CellChoice choose_cells(const Suite& suite, double budget_seconds);

// The suite with the chosen cases alone, in that order.
Suite with_cells(const Suite& suite, const CellChoice& choice);

}  // namespace dettax
