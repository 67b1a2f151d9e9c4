#include "harness/evidence/ledger_diff.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/comparable.h"

namespace dettax {
namespace {

LedgerDiff::Side side_of(LedgerSource& ledger, const std::string& name) {
  return {
      name,          ledger.head(),          static_cast<int64_t>(ledger.ranks()), ledger.entries(),
      ledger.torn(), ranks_agreement(ledger)};
}

Knobs knobs_of(const LedgerHead& head) {
  Knobs knobs;
  for (const auto& [name, value] : head.knobs) set_knob(knobs, name, value);
  return knobs;
}

void write_side(std::ostream& out, char letter, const LedgerDiff::Side& side) {
  const LedgerHead& head = side.head;
  out << fmt::format(
      "{}  {}\n   {}, mode {}, seed {}, {} step{}, {} rank{}, depth {}, {} fingerprints{}\n",
      letter, side.name, head.case_id, head.mode, head.seed, head.steps, head.steps == 1 ? "" : "s",
      side.ranks, side.ranks == 1 ? "" : "s", to_string(head.depth), side.entries,
      side.torn ? ", cut off" : "");
}

void write_ranks(std::ostream& out, char letter, const RankAgreement& ranks) {
  if (!ranks.tested || ranks.equal) return;
  out << fmt::format("ranks of {} disagree: {}\n", letter, ranks.first_difference);
}

std::string agreement_words(const RankAgreement& a, const RankAgreement& b) {
  if (!a.tested || !b.tested) return "";
  return a.equal && b.equal ? "; in both, ranks that are copies agree" : "";
}

}  // namespace

ExitCode LedgerDiff::exit_code() const {
  if (!promised) return ExitCode::pass;
  const auto disagree = [](const Side& side) {
    return side.agreement.tested && !side.agreement.equal;
  };
  if (disagree(a) || disagree(b)) return ExitCode::not_bit_exact;
  if (!comparison.comparable) return ExitCode::infrastructure;
  return comparison.equal ? ExitCode::pass : ExitCode::not_bit_exact;
}

LedgerDiff diff_ledgers(LedgerSource& a, const std::string& name_of_a, LedgerSource& b,
                        const std::string& name_of_b, const CompareOptions& options,
                        const std::string& scope) {
  LedgerDiff diff{side_of(a, name_of_a),
                  side_of(b, name_of_b),
                  environment_differences(a.head(), b.head()),
                  compare_ledgers(a, b, options),
                  {},
                  {},
                  true};
  if (options.force)
    diff.forced_past = head_difference(a.head(), a.ranks(), b.head(), b.ranks(), options);
  diff.cause = cause_of(diff.comparison, knobs_of(a.head()), scope,
                        absent_knobs(a.head(), std::max(a.ranks(), b.ranks())));
  if (diff.comparison.first && !diff.environment.bits.empty()) {
    diff.cause.advice = fmt::format(
        "first run both in one environment ({}); what is seen is where it shows first: {}",
        join(diff.environment.bits, "; "), diff.cause.name);
    diff.cause.name = "environment";
  }
  return diff;
}

void write_diff(std::ostream& out, const LedgerDiff& diff, bool in_short) {
  const LedgerComparison& found = diff.comparison;
  const bool forced = !diff.forced_past.empty();
  if (in_short && found.equal && !forced && diff.exit_code() == ExitCode::pass) {
    out << fmt::format("equal      {}: {} fingerprints\n", diff.b.name, found.compared);
    return;
  }
  if (in_short && !diff.promised && !forced && found.comparable) {
    out << fmt::format("no promise {}: {}\n", diff.b.name, found.description);
    return;
  }
  write_side(out, 'A', diff.a);
  write_side(out, 'B', diff.b);
  if (!diff.forced_past.empty()) out << "forced past: " << diff.forced_past << '\n';
  for (const std::string& what : diff.environment.bits)
    out << "environment differs, and bits may with it: " << what << '\n';
  for (const std::string& what : diff.environment.told) out << "also other: " << what << '\n';
  write_ranks(out, 'A', diff.a.agreement);
  write_ranks(out, 'B', diff.b.agreement);
  if (!found.comparable) {
    out << "not compared: " << found.incomparable_reason << '\n';
  } else if (found.equal) {
    out << fmt::format("equal: {} fingerprints{}\n", found.compared,
                       agreement_words(diff.a.agreement, diff.b.agreement));
  } else {
    out << "different: " << found.description << agreement_words(diff.a.agreement, diff.b.agreement)
        << '\n';
    if (!diff.cause.name.empty())
      out << "class: " << diff.cause.name << "\nwhat to do: " << diff.cause.advice << '\n';
  }
}

}  // namespace dettax
