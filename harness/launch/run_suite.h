#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/launch/run_case.h"
#include "results/run_folder.h"

namespace dettax {

struct RunSuiteSettings {
  std::optional<double>
      budget_seconds;  // for the whole run; each case gets its share of what is left
  std::function<void(size_t done, size_t total, const CaseProgress&)> on_progress;
  std::function<void(size_t done, size_t total, const Record&)> on_record;
  // Why checkpoints of a case are missing that it went on without.
  std::function<void(const std::string& case_id, const std::string& why)> on_not_saved;
  std::function<bool()> interrupted;
};

struct SuiteRun {
  std::vector<Record>
      records;  // in the suite's order; of an interrupted run those that were finished
  bool interrupted = false;
};

// The suite's cases, one after the other; each record is written as soon as it is there. A case
// that the folder holds a record of is not run again. Cases that the budget leaves no time for get
// a record that says so, and a later run into the folder takes them up.
SuiteRun run_suite(const Suite& suite, RunFolder& folder, Launcher& launcher,
                   const RunSuiteSettings& settings);

}  // namespace dettax
