#pragma once

#include <iosfwd>
#include <string>

#include "harness/evidence/ledger_diff.h"

namespace dettax {

// A golden run is a ledger that a build's bits are held against, with the suite that repeats it and the environment it was recorded in.
struct GoldenVerdict {
  // pass: equal bits, wherever it ran. not_bit_exact: other bits in the same environment, so a numeric change of the code.
  // inconclusive: other bits in another environment, which cannot be told apart here. infrastructure: the runs are not the same run.
  ExitCode code = ExitCode::internal;
  std::string words;  // one line
  LedgerDiff diff;    // a: golden
};

// Both ledgers must be whole; Error{config} for a golden one that is not, or holds no suite.
GoldenVerdict judge_golden(LedgerSource& golden, const std::string& golden_name,
                           LedgerSource& fresh);

void write_golden_verdict(std::ostream& out, const GoldenVerdict& verdict);

}  // namespace dettax
