#pragma once

#include <string>
#include <vector>

#include "harness/evidence/ledger.h"
#include "results/record.h"

namespace dettax {

// Ledgers of one arm over one scope. same_process: the repetitions, the first of them included. Any
// other scope: runs that are compared with the first of same_process.
struct ScopeLedgers {
  std::string scope;
  std::vector<Ledger> runs;
};
struct ArmLedgers {
  std::string arm;
  std::vector<ScopeLedgers> scopes;
  std::string ledger_file;  // where the first run's ledger lies, beside the record
  Knobs knobs{};            // what the arm ran with
};

// What the ledgers show, scope by scope. A scope without enough runs is not tested, and not tested
// is never equal. The control arm is fast once more: its first ledger also counts as a relaunch of
// fast. A function of its arguments alone.
Evidence assemble_evidence(const std::vector<ArmLedgers>& arms);

}  // namespace dettax
