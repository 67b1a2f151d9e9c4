#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "harness/base/exit_code.h"
#include "harness/base/format.h"
#include "results/provenance.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

// A change this many times the tolerance could hide in the interval: then "no change" would claim
// too much.
constexpr double kBlindFactor = 5;

template <class T>
const T* find(const std::vector<T>& all, const std::string T::* key, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const T& one) { return one.*key == name; });
  return found == all.end() ? nullptr : &*found;
}

// --- provenance
// ------------------------------------------------------------------------------------------------------------------

class Differences {
 public:
  void add(const std::string& what, const std::string& base, const std::string& fresh) {
    const std::string line = what + ": " + (base.empty() ? "(none)" : base) + " against " +
                             (fresh.empty() ? "(none)" : fresh);
    if (base != fresh && seen_.insert(line).second) lines_.push_back(line);
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> lines_;
};

void environment_differences(const Environment& base, const Environment& fresh, Differences& out) {
  const auto before = provenance(base), now = provenance(fresh);
  const auto value_in = [](const auto& all, const std::string& name) {
    const auto found = std::ranges::find(all, name, [](const auto& one) { return one.first; });
    return found == all.end() ? std::string(kUnset) : found->second;
  };
  for (const auto& [name, value] : before) out.add(name, value, value_in(now, name));
  for (const auto& [name, value] : now) {
    if (value_in(before, name) == kUnset) out.add(name, kUnset, value);
  }
}

std::string text_words(const Data& data) {
  return data.kind == "text" ? fmt::format("{} bytes, hash {}", data.bytes, data.hash) : "";
}

std::string as_written(const Case& planned) {
  Record only;
  only.planned = planned;
  return to_json(only);
}

void case_differences(const Record& base, const Record& fresh, Differences& out) {
  // A text is what it holds, wherever it lies.
  out.add("text of " + base.case_id, text_words(base.planned.data), text_words(fresh.planned.data));
  const auto without_text = [](Case planned) {
    planned.data.path.clear();
    planned.data.hash.clear();
    planned.data.bytes = 0;
    return as_written(planned);
  };
  // What a case is beyond its name: compared as it is written.
  if (without_text(base.planned) != without_text(fresh.planned))
    out.add(base.case_id, "its model, batch, data, optimizer, seed or faults", "others");
  for (const ArmResult& arm : base.arms) {
    if (const ArmResult* other = find_arm(fresh, arm.arm))
      out.add("mode " + arm.mode, arm.mode + " " + arm.mode_hash,
              other->mode + " " + other->mode_hash);
  }
}

// --- rows
// ------------------------------------------------------------------------------------------------------------------------

std::string change_words(double ratio) {
  return fmt::format("{} {}", format_percent(std::abs(ratio - 1)), ratio > 1 ? "more" : "less");
}

void judge_ratio(ComparisonRow& row, const Estimate& base, const Estimate& fresh,
                 double tolerance) {
  row.ratio = fresh.value / base.value;
  row.low = fresh.low / base.high;
  row.high = fresh.high / base.low;
  // The largest change that the interval holds.
  const double hidden = std::max(row.high - 1, 1 - row.low);
  const bool changed = row.low > 1 || row.high < 1;
  if (row.low > 1 + tolerance) {
    row.status = Status::fail;
    row.words = "grew: " + change_words(row.ratio);
  } else if (row.high < 1 - tolerance) {
    row.status = Status::fail;
    row.words =
        "shrank: " + change_words(row.ratio) + "; a gain is flagged, not accepted by itself";
  } else if (hidden <= tolerance) {
    row.status = Status::pass;
    row.words = changed ? "a change within the tolerance" : "no change beyond the tolerance";
  } else if (changed) {
    row.status = Status::inconclusive;
    row.words = fmt::format("a change, perhaps within the tolerance of {}, perhaps of {}",
                            format_percent(tolerance), format_percent(hidden));
  } else if (!(hidden <= kBlindFactor * tolerance)) {
    row.status = Status::inconclusive;
    row.words = "no change shown, but one of " + format_percent(hidden) + " could hide";
  } else {
    row.status = Status::pass;
    row.words =
        fmt::format("no change shown; one of {} at most could hide", format_percent(hidden));
  }
}

ComparisonRow missing_row(const std::string& case_id, const std::string& arm,
                          const std::string& quantity, const std::string& words) {
  ComparisonRow row;
  row.case_id = case_id;
  row.arm = arm;
  row.quantity = quantity;
  row.status = Status::error;
  row.words = words;
  return row;
}

ComparisonRow ratio_row(const std::string& case_id, const std::string& arm,
                        const std::string& quantity, const std::optional<Estimate>& base,
                        const std::optional<Estimate>& fresh, double tolerance) {
  ComparisonRow row = missing_row(case_id, arm, quantity, "");
  row.base = base;
  row.fresh = fresh;
  if (base && fresh) {
    judge_ratio(row, *base, *fresh, tolerance);
  } else {
    row.words = !base ? "the base has no such value" : "the new run has no such value";
  }
  return row;
}

std::optional<Estimate> published_overhead(const Record& record, const std::string& arm) {
  const Tax* tax = find(record.taxes, &Tax::arm, arm);
  return tax != nullptr && tax->published ? std::optional(tax->overhead_ratio) : std::nullopt;
}

// A ratio has two sides: say which of them moved.
std::string moved_side(const std::vector<ComparisonRow>& rows, const std::string& arm) {
  std::string words;
  for (const ComparisonRow& row : rows) {
    if (row.quantity != "step_time_seconds" || row.status != Status::fail ||
        (row.arm != arm && row.arm != "fast"))
      continue;
    words += (words.empty() ? "" : ", ") + row.arm + " got " +
             (row.ratio > 1 ? "slower" : "faster") + " by " +
             format_percent(std::abs(row.ratio - 1));
  }
  return words.empty() ? "neither arm's step time moved beyond its interval" : words;
}

std::string differing_scopes(const ArmEvidence& evidence) {
  std::string words;
  for (const ScopeEvidence& scope : evidence.scopes) {
    if (scope.tested && !scope.equal) words += "; " + scope.scope + ": " + scope.first_difference;
  }
  return words;
}

// Two runs of one case under the same conditions are one more repetition of it.
void judge_ledgers(ComparisonRow& row, const ArmEvidence& base, const ArmEvidence& fresh,
                   bool same_conditions) {
  row.status = Status::pass;
  if (base.ledger_digest == fresh.ledger_digest) {
    row.words = "reproducible as before, and both records have the same digest of its ledger";
  } else if (!same_conditions) {
    row.words =
        "reproducible as before; the ledgers of the two runs differ, as they may between "
        "other conditions";
  } else {
    row.status = Status::fail;
    row.violates_determinism = true;
    row.words =
        "reproducible in each run, but the ledgers of the two runs differ: " + base.ledger_digest +
        " against " + fresh.ledger_digest;
  }
}

ComparisonRow evidence_row(const Record& base, const Record& fresh, const std::string& arm,
                           bool same_conditions) {
  ComparisonRow row = missing_row(base.case_id, arm, "evidence", "");
  const ArmEvidence* before = find_evidence(base, arm);
  const ArmEvidence* now = find_evidence(fresh, arm);
  if (before == nullptr || now == nullptr) {
    row.words =
        fmt::format("the {} has no evidence for this arm", now == nullptr ? "new run" : "base");
  } else if (!now->reproducible) {
    row.status = Status::fail;
    row.violates_determinism = true;
    row.words = (before->reproducible ? "was reproducible and is no longer"
                                      : "not reproducible, as before: its speed stays void") +
                differing_scopes(*now);
  } else if (!before->reproducible) {
    row.status = Status::fail;
    row.words = "was not reproducible and is now: a gain is flagged, not accepted by itself";
  } else {
    judge_ledgers(row, *before, *now, same_conditions);
  }
  return row;
}

// A tax that neither run publishes: as it should be, unless the new run's case is void or broken.
void judge_unpublished(ComparisonRow& row, const Record& fresh) {
  row.words = "published in neither run";
  const Verdict& verdict = fresh.verdict;
  const bool is_void = verdict.exit_code == static_cast<int>(ExitCode::not_bit_exact);
  if (!claims(fresh, row.arm)) {
    row.status = Status::pass;
    row.words += "; its mode claims nothing";
  } else if (is_void || verdict.status == Status::error) {
    row.status = is_void ? Status::fail : Status::error;
    row.violates_determinism = is_void;
    row.words += ": " + verdict.reason;
  } else {
    row.status = Status::pass;
  }
}

// Of a case that was not run in one of the runs, or in both.
ComparisonRow unmeasured_row(const Record& base, const Record& fresh) {
  ComparisonRow row = missing_row(base.case_id, "", "", "");
  const bool same = base.arms.empty() && fresh.arms.empty();
  if (same && base.verdict.status == Status::skipped && fresh.verdict.status == Status::skipped)
    row.status = Status::skipped;
  const Record& which = fresh.arms.empty() ? fresh : base;
  row.words = fmt::format("not measured in {}: {}",
                          same                 ? "either run"
                          : fresh.arms.empty() ? "the new run"
                                               : "the base",
                          which.verdict.reason);
  return row;
}

void compare_case(const Record& base, const Record& fresh, double tolerance, bool same_conditions,
                  std::vector<ComparisonRow>& out) {
  if (base.arms.empty() || fresh.arms.empty()) {
    out.push_back(unmeasured_row(base, fresh));
    return;
  }
  std::vector<ComparisonRow> rows;
  for (const ArmResult& arm : base.arms) {
    const ArmResult* other = find_arm(fresh, arm.arm);
    rows.push_back(
        other == nullptr
            ? missing_row(base.case_id, arm.arm, "step_time_seconds", "the new run lacks this arm")
            : ratio_row(base.case_id, arm.arm, "step_time_seconds", arm.step_time_seconds,
                        other->step_time_seconds, tolerance));
  }
  for (const Tax& tax : base.taxes) {
    ComparisonRow row =
        ratio_row(base.case_id, tax.arm, "overhead_ratio", published_overhead(base, tax.arm),
                  published_overhead(fresh, tax.arm), tolerance);
    if (!row.base && !row.fresh) judge_unpublished(row, fresh);
    if (row.status == Status::fail) row.words += " (" + moved_side(rows, tax.arm) + ")";
    rows.push_back(row);
  }
  for (const ArmResult& arm : base.arms) {
    if (arm.claims_reproducible)
      rows.push_back(evidence_row(base, fresh, arm.arm, same_conditions));
  }
  out.insert(out.end(), rows.begin(), rows.end());
}

// In the other run the same case on another number of threads, which gives it a name that this run lacks.
const Record* on_other_threads(const std::vector<Record>& others, const std::vector<Record>& own,
                               const Record& one) {
  const auto as_if_on = [](Case planned, int threads) {
    planned.topology.threads_per_rank = threads;
    return as_written(planned);
  };
  const std::string wanted = as_written(one.planned);
  const auto found = std::ranges::find_if(others, [&](const Record& other) {
    return find(own, &Record::case_id, other.case_id) == nullptr &&
           as_if_on(other.planned, one.planned.topology.threads_per_rank) == wanted;
  });
  return found == others.end() ? nullptr : &*found;
}

std::string absent_words(const Record& one, const std::vector<Record>& base,
                         const std::vector<Record>& fresh) {
  const Record* other = on_other_threads(fresh, base, one);
  if (other == nullptr) return "the new run lacks this case";
  return fmt::format("different environment: threads {} against {}, not comparable bitwise",
                     one.planned.topology.threads_per_rank,
                     other->planned.topology.threads_per_rank);
}

ExitCode exit_code_of_row(const ComparisonRow& row) {
  if (row.status == Status::fail && row.violates_determinism) return ExitCode::not_bit_exact;
  return exit_code_of(row.status);
}

}  // namespace

Comparison compare_runs(const std::vector<Record>& base, const std::vector<Record>& fresh,
                        const CompareSettings& settings) {
  Comparison comparison;
  Differences differences;
  for (const Record& one : base) {
    const Record* other = find(fresh, &Record::case_id, one.case_id);
    if (other == nullptr || one.arms.empty() || other->arms.empty()) continue;
    environment_differences(one.environment, other->environment, differences);
    case_differences(one, *other, differences);
  }
  comparison.provenance_differences = differences.take();
  if (!comparison.provenance_differences.empty() && !settings.force) {
    comparison.exit_code = static_cast<int>(ExitCode::infrastructure);
    return comparison;
  }
  for (const Record& one : base) {
    const Record* other = find(fresh, &Record::case_id, one.case_id);
    if (other == nullptr) {
      comparison.rows.push_back(missing_row(one.case_id, "", "", absent_words(one, base, fresh)));
    } else {
      compare_case(one, *other, settings.tolerance_ratio, comparison.provenance_differences.empty(),
                   comparison.rows);
    }
  }
  for (const Record& one : fresh) {
    if (find(base, &Record::case_id, one.case_id) == nullptr &&
        on_other_threads(base, fresh, one) == nullptr)
      comparison.rows.push_back(missing_row(one.case_id, "", "", "the base lacks this case"));
  }
  std::vector<ExitCode> codes;
  for (const ComparisonRow& row : comparison.rows) codes.push_back(exit_code_of_row(row));
  // Nothing compared is no agreement.
  comparison.exit_code =
      static_cast<int>(codes.empty() ? ExitCode::infrastructure : combine(codes));
  return comparison;
}

}  // namespace dettax
