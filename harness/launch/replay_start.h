#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/evidence/ledger_source.h"

namespace dettax {

// Where steps are run again from: the reset, or a checkpoint of so many steps.
struct ReplayStart {
  int64_t step = 0;
  std::filesystem::path checkpoint;      // empty: the reset
  std::vector<std::string> passed_over;  // nearer ones that were of no use, and why
};

// A recorded run, and the folder in which its arm kept checkpoints; empty: it had none.
struct RecordedRun {
  std::string name;
  LedgerSource* ledger = nullptr;
  std::filesystem::path checkpoints;
};

// The last whole checkpoint, of either, from which this step is still to come and whose state is the one that all of these runs recorded
// there: what they did behind it can then be done again from it.
ReplayStart nearest_start(std::span<const RecordedRun> runs, int64_t step);

}  // namespace dettax
