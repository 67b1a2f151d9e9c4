#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "harness/base/exit_code.h"
#include "harness/evidence/cause.h"
#include "harness/evidence/ledger.h"
#include "harness/evidence/ledger_source.h"

namespace dettax {

// Two ledgers laid side by side: all that can be said of how they differ.
struct LedgerDiff {
  struct Side {
    std::string name;  // path
    LedgerHead head;
    int64_t ranks = 0, entries = 0;
    bool torn = false;
    RankAgreement agreement;  // between its own ranks
  };
  Side a, b;
  EnvironmentDifferences environment;
  LedgerComparison comparison;
  Cause cause;
  std::string forced_past;  // what would have kept them from being compared
  bool promised =
      true;  // the mode says that its bits agree; else a difference is none of its faults

  // not_bit_exact for a difference, also between the ranks of one run; infrastructure where bits could not be compared.
  ExitCode exit_code() const;
};

// The scope tells what is claimed (results/record.h); empty: of runs.
LedgerDiff diff_ledgers(LedgerSource& a, const std::string& name_of_a, LedgerSource& b,
                        const std::string& name_of_b, const CompareOptions& options = {},
                        const std::string& scope = "");

// A paragraph for people: what the two are, what differs around them, then the first difference, its class and what to set. In short:
// one line where they are equal or nothing was promised.
void write_diff(std::ostream& out, const LedgerDiff& diff, bool in_short = false);

// {"schema_version", "exit_code", "diffs": [...]}, strict RFC 8259.
std::string diff_json(std::span<const LedgerDiff> diffs, ExitCode exit_code);

}  // namespace dettax
