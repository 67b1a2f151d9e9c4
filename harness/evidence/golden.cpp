#include "harness/evidence/golden.h"

#include <ostream>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

void require_golden(const LedgerSource& golden, const std::string& name) {
  if (golden.torn())
    throw Error(ErrorKind::config,
                name + ": the file was cut off; restore it or record it anew with --record");
  if (golden.head().suite.empty())
    throw Error(ErrorKind::config,
                name +
                    ": is a ledger but no golden run, for it does not say how to repeat it; "
                    "record one with dettax verify --record --golden FILE");
}

}  // namespace

GoldenVerdict judge_golden(LedgerSource& golden, const std::string& golden_name,
                           LedgerSource& fresh) {
  require_golden(golden, golden_name);
  CompareOptions options;
  options.other_environment = true;
  GoldenVerdict verdict;
  verdict.diff = diff_ledgers(golden, golden_name, fresh, "this build", options);
  const LedgerComparison& found = verdict.diff.comparison;
  const std::string drift = join(verdict.diff.environment.bits, "; ");
  if (!found.comparable) {
    verdict.code = ExitCode::infrastructure;
    verdict.words = fmt::format(
        "not comparable: {}; this build runs another control run than was "
        "recorded, so record it anew",
        found.incomparable_reason);
  } else if (verdict.diff.exit_code() == ExitCode::pass) {
    verdict.code = ExitCode::pass;
    verdict.words = fmt::format("equal: {} fingerprints of {} steps on {} ranks", found.compared,
                                golden.head().steps, golden.ranks());
    if (!drift.empty()) verdict.words += "; the environment drifted and the bits did not: " + drift;
  } else if (!drift.empty()) {
    verdict.code = ExitCode::inconclusive;
    verdict.words = fmt::format(
        "environment drift: {}; bits differ from {}, and whether a change of the code did it shows "
        "only where it was recorded",
        drift, found.description);
  } else {
    verdict.code = ExitCode::not_bit_exact;
    verdict.words = "numeric change in the same environment: " +
                    (found.equal ? "ranks that are copies disagree" : found.description);
  }
  return verdict;
}

void write_golden_verdict(std::ostream& out, const GoldenVerdict& verdict) {
  out << verdict.words << '\n';
  if (verdict.code == ExitCode::pass || verdict.code == ExitCode::infrastructure) return;
  const LedgerDiff& diff = verdict.diff;
  for (const LedgerDiff::Side* side : {&diff.a, &diff.b}) {
    if (side->agreement.tested && !side->agreement.equal)
      out << fmt::format("{}: {}\n", side->name, side->agreement.first_difference);
  }
  if (!diff.cause.name.empty())
    out << "class: " << diff.cause.name << "\nwhat to do: " << diff.cause.advice << '\n';
  for (const std::string& what : diff.environment.told) out << "also other: " << what << '\n';
}

}  // namespace dettax
