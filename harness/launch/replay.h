#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/evidence/bisect_report.h"
#include "harness/evidence/promise.h"
#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"

namespace dettax {

// What repeats a ledger of a run of this suite: the arm on its case, changed as the name of the run
// says ("other_allocation", "threads_3"). Error{config} for a case, an arm or a run the suite does not have.
ArmSpec replay_spec(const Suite& suite, const LedgerPlace& place);

// Where steps are run again from: the reset, or a checkpoint of so many steps.
struct ReplayStart {
  int64_t step = 0;
  std::filesystem::path checkpoint;  // empty: the reset
};
// The last from which this step is still to come.
ReplayStart nearest_start(const std::filesystem::path& run_folder, const LedgerPlace& place,
                          int64_t step);

// One of the two recorded runs, and how it is run again.
struct Replayed {
  ArmSpec spec;
  LedgerPlace place;
  Launcher* launcher = nullptr;
};
struct ReplaySettings {
  ReplayStart start;
  int64_t steps = 0;                               // from there
  int tries = 3;                                   // runs of B
  bool force = false;                              // as CompareOptions
  std::filesystem::path folder;                    // takes the ledgers, replay_<n>.ledger
  std::function<void(const std::string&)> on_run;  // is told what comes
};
// Runs A once and B until they differ, op by op and all but a first run of a group under stress as when
// they were recorded; B too is run by A's processes where the two were runs of one group. Fills in `runs`
// and `replayed`.
void replay(const Replayed& a, const Replayed& b, const ReplaySettings& settings,
            BisectReport& report);

}  // namespace dettax
