#pragma once

#include <string>
#include <vector>

#include "results/analysis/acceptance/acceptance.h"
#include "results/run_folder.h"

namespace dettax {

// Run folders below what was named: a run, or a folder that holds runs (as an array of jobs leaves them, a folder a node). Sorted, each
// once; Error{config} for one that holds none.
std::vector<RunFolder> find_runs(const std::vector<std::string>& names);

// What a run's folder says of its cases, planned ones without a result included.
std::vector<AcceptanceInput> acceptance_inputs(const RunFolder& folder);

}  // namespace dettax
