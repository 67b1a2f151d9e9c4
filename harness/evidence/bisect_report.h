#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/exit_code.h"
#include "harness/evidence/ledger_diff.h"

namespace dettax {

// Two recorded ledgers that differ, and where their difference began once the steps were run again op
// by op.
struct BisectReport {
  LedgerDiff recorded;
  std::string why_not_replayed;          // a replay would tell no more; empty: it was tried
  std::optional<LedgerDiff> replayed;    // the two new runs that differed; nothing: none did
  std::string checkpoint;                // that replays began at; empty: from the reset
  std::vector<std::string> passed_over;  // nearer checkpoints that were of no use, and why
  int64_t first_step = 0, steps = 0;     // of each replay
  int runs = 0;                          // that were made
  std::string other_build;  // in what this build or machine is not that of the recorded ledgers
  int64_t repeated =
      0;  // recorded fingerprints of the steps before the last that replays were held against
  std::string
      not_repeated;        // the first that a replay does not have, with the recorded ledger's name
  bool not_moved = false;  // ranks and threads that lay elsewhere lie in the same places here

  ExitCode others = ExitCode::skipped;  // of what else the two runs have; none

  ExitCode exit_code() const { return combine(std::array{recorded.exit_code(), others}); }
  // The ledgers that show the origin best.
  const LedgerDiff& deepest() const { return replayed ? *replayed : recorded; }
};

// Of an op's path; nothing where the step has one micro-batch, or the op is of none.
std::optional<int64_t> micro_batch_of(std::string_view path);

// The recorded difference in short, how it was replayed, and its origin with class and advice.
void write_bisect(std::ostream& out, const BisectReport& report);

// {"schema_version", "exit_code", "runs", "origin": {"step", "rank", "micro_batch", "op", "tensor"}, ...}, strict RFC 8259; origin is null
// where no replay came to an op.
std::string bisect_json(const BisectReport& report);

}  // namespace dettax
