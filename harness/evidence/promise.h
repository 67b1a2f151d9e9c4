#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/evidence/ledger.h"
#include "results/record.h"

namespace dettax {

// Where a ledger lies in a run's folder ledgers: `<case>/<arm>.<run>.ledger`. An arm's name may have dots, a run's has none.
struct LedgerPlace {
  std::string case_id, arm, run;
};
LedgerPlace ledger_place(const std::string& path);

// Whether the arm's mode promises that its bits agree: as any record of the arm, or else any of the heads, says it; nothing where none does.
std::optional<bool> promise_of(const LedgerPlace& place, std::span<const Record> records,
                               std::span<const LedgerHead> heads);

}  // namespace dettax
