#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/evidence/bisect_report.h"
#include "harness/evidence/promise.h"
#include "harness/launch/launcher.h"
#include "harness/launch/replay_start.h"
#include "harness/plan/suite.h"

namespace dettax {

// What repeats a ledger of a run of this suite: the arm on its case, changed as the name of the run
// says ("other_allocation", "threads_3"). Error{config} for a case, an arm or a run the suite does not have.
ArmSpec replay_spec(const Suite& suite, const LedgerPlace& place);

// Where the n-th run leaves its ledger.
std::filesystem::path replay_file(const std::filesystem::path& folder, int number);

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
  CompareOptions compare;                          // of the new runs, as of the recorded ones
  std::string scope;                               // of diff_ledgers()
  std::filesystem::path folder;                    // takes the ledgers, replay_file()
  std::function<void(const std::string&)> on_run;  // is told what comes
};
// Runs A once and B until they differ, op by op and all but a first run of a group under stress as when
// they were recorded; B too is run by A's processes where the two were runs of one group. Each is also held against its own record up to
// the step in question. Fills in what the report says of the replay.
void replay(const Replayed& a, const Replayed& b, const ReplaySettings& settings,
            BisectReport& report);

}  // namespace dettax
