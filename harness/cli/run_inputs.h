#pragma once

#include <string>
#include <vector>

#include "harness/cli/export_options.h"
#include "results/analysis/acceptance/acceptance.h"
#include "results/run_folder.h"

namespace dettax {

// Run folders below what was named: a run, or a folder that holds runs (as an array of jobs leaves them, a folder a node). Sorted, each
// once; Error{config} for one that holds none, for a folder that cannot be read, and for one that has a run's records but no longer its journal.
std::vector<RunFolder> find_runs(const std::vector<std::string>& names);

// What a run keeps: its suite, journal, records, ledgers and checkpoints. `what` stands for the run. No result of a command may take the place of one
// (require_other_files); beside them in its folder it may lie.
std::vector<NamedFile> files_of_run(const std::string& what, const RunFolder& folder);

// What the journals say of how the runs came about, so that runs are judged again as they were judged first; where
// not all runs say it, with their names.
AcceptanceContext recorded_context(const std::vector<RunFolder>& folders);

// What a run's folder says of its cases, planned ones without a result included.
std::vector<AcceptanceInput> acceptance_inputs(const RunFolder& folder);

}  // namespace dettax
