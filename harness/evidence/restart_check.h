#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "harness/evidence/ledger_diff.h"
#include "harness/evidence/ledger_source.h"
#include "harness/train/state.h"

namespace dettax {

// Of each rank what its state was.
using StateTables = std::vector<std::vector<StateEntry>>;

// Whether one item of the state came through a restart.
struct RestartItem {
  std::string item;  // of train/state.h
  bool same = false;
  bool blind = false;  // the same, but as a fresh start has it too: its loss would not have shown
  bool left_out = false;  // it was not loaded, as was asked
  std::string words;  // what differs: "0 against 50, on all 4 ranks: as a fresh start leaves it"
  std::vector<int> ranks;  // on which it differs
};
// At the boundary, before any step. An item that one of the two does not have is not the same.
std::vector<RestartItem> judge_items(const StateTables& saved, const StateTables& restored,
                                     const StateTables& fresh);

// One case under one mode.
struct RestartVerdict {
  std::string case_id, mode;
  int steps = 0, save_at = 0;
  std::vector<RestartItem> items;
  LedgerComparison before;  // the run that was saved, against the straight one, up to the save
  LedgerComparison after;   // the run that went on, against the straight one, from there
  std::string
      replayed;  // "the tokens are those of step 0": what went in at the first difference went in before
  std::vector<std::string>
      faults;  // that the case injects and by which a difference in steps is as it should be
  std::string skipped;  // why it could not be tried, else empty
  std::string error;    // what ended it, else empty

  // not_bit_exact where an item or a step differs; infrastructure where steps could not be compared or an
  // error ended it; inconclusive where an item was left out and that did not show.
  ExitCode code() const;
};

// Ledgers of `steps` steps straight; of `save_at` steps; and of the steps from there on.
RestartVerdict judge_restart(LedgerSource& straight, LedgerSource& saved, LedgerSource& resumed,
                             int save_at);

// A line, and more for what differs.
void write_restart(std::ostream& out, const RestartVerdict& verdict);
// {"schema_version", "exit_code", "restarts": [...]}, strict RFC 8259.
std::string restart_json(const std::vector<RestartVerdict>& verdicts, ExitCode code);

}  // namespace dettax
