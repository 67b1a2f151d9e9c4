// Rules that a record keeps or breaks by itself.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"
#include "results/analysis/acceptance/findings.h"
#include "results/reason.h"
#include "results/tax_limit.h"

namespace dettax {
namespace {

std::string where_words(const NodeObservation& one) { return one.case_id + " on " + one.node; }

// Whether a limit of these rules judges the published tax of this arm.
bool judged_by_limit(const NodeObservation& one, const std::string& arm,
                     const AcceptanceRules& rules) {
  const auto tax = std::ranges::find(one.record->taxes, arm, &Tax::arm);
  if (tax == one.record->taxes.end() || !tax->published) return false;
  return std::ranges::any_of(rules.limits, [&](const CaseLimit& limit) {
    return limit.max_overhead_ratio && matches_glob(limit.pattern, one.case_id) &&
           matches_glob(limit.arm, arm);
  });
}

// Whether limits here decide instead of the suite's, which is not in the record: if they judge every arm that its verdict could be about.
bool limits_decide(const NodeObservation& one, const AcceptanceRules& rules) {
  bool any = false;
  for (const ArmResult& arm : one.record->arms) {
    if (!arm.claims_reproducible) continue;
    if (!judged_by_limit(one, arm.arm, rules)) return false;
    any = true;
  }
  return any;
}

const ArmResult* broken_arm(const Record& record) {
  const auto found = std::ranges::find_if(
      record.arms, [](const ArmResult& arm) { return !arm.failure_code.empty(); });
  return found == record.arms.end() ? nullptr : &*found;
}

bool measured_nothing(const Record& record) {
  return std::ranges::none_of(
      record.arms, [](const ArmResult& arm) { return arm.step_time_seconds.has_value(); });
}

// The case's own verdict, and what speaks against it: an error in an arm beats a pass, and a pass of nothing is none.
void judge_verdict(const NodeObservation& one, const AcceptanceRules& rules, FindingList& list) {
  const Record& record = *one.record;
  const Verdict& verdict = record.verdict;
  const auto own = [&](const std::string& code) {
    AcceptanceFinding& found = list.add("cases", code, one, verdict.reason);
    found.exit_code = static_cast<ExitCode>(verdict.exit_code);
    found.status = verdict.status;
  };
  switch (verdict.status) {
    case Status::pass:
      if (const ArmResult* arm = broken_arm(record); arm != nullptr) {
        list.add("cases", std::string(reason_info(arm->failure_code).code), one,
                 fmt::format("{} passed although its arm {} broke: {}", where_words(one), arm->arm,
                             arm->failure))
            .arm = arm->arm;
      } else if (measured_nothing(record)) {
        list.add("cases", "no_measurement", one,
                 where_words(one) + " passed although nothing of it was measured");
      } else {
        list.keep("cases");
      }
      return;
    case Status::inconclusive:
      if (verdict.reason_code == "not_resolved" && limits_decide(one, rules))
        return list.keep("cases");
      return own(verdict.reason_code);
    case Status::skipped:
      return;  // presence_rules.cpp says it where others ran it
    case Status::fail:
      if (verdict.reason_code == "over_limit" && limits_decide(one, rules))
        return list.keep("cases");
      return own(verdict.reason_code);
    case Status::error:
      return own(verdict.reason_code);
  }
}

void judge_tax(const NodeObservation& one, const Tax& tax, double limit, FindingList& list) {
  const Estimate& ratio = tax.overhead_ratio;
  const TaxBesideLimit beside = tax_beside_limit(tax, limit);
  std::string words = fmt::format(
      "{}: tax of {} {} ({} to {}, n = {}), limit {}", where_words(one), tax.arm,
      format_signed_percent(ratio.value - 1), format_signed_percent(ratio.low - 1),
      format_signed_percent(ratio.high - 1), ratio.count, format_signed_percent(limit - 1));
  if (beside.bias > 0)
    words += fmt::format(", fast is {} apart from itself", format_percent(std::expm1(beside.bias)));
  if (beside.over) {
    list.add("tax", "over_limit", one, words).arm = tax.arm;
  } else if (beside.under && beside.visible) {
    list.keep("tax");
  } else {
    list.add("tax", "not_resolved", one,
             fmt::format("{}, detectable from {} on", words,
                         format_signed_percent(tax.min_detectable_overhead_ratio - 1)))
        .arm = tax.arm;
  }
}

void judge_limit(const NodeObservation& one, const CaseLimit& limit, FindingList& list) {
  const Record& record = *one.record;
  if (limit.max_overhead_ratio && record.verdict.reason_code != "control_differs") {
    for (const Tax& tax : record.taxes) {
      if (tax.published && matches_glob(limit.arm, tax.arm))
        judge_tax(one, tax, *limit.max_overhead_ratio, list);
    }
  }
  const ArmResult* fast = find_arm(record, "fast");
  if (limit.min_tokens_per_second && fast != nullptr && fast->step_time_seconds) {
    const double tokens = fast->tokens_per_second;
    if (tokens >= *limit.min_tokens_per_second) {
      list.keep("throughput");
    } else {
      list.add("throughput", "low_throughput", one,
               fmt::format("{}: {} tokens/s, limit {}", where_words(one), format_count(tokens),
                           format_count(*limit.min_tokens_per_second)));
    }
  }
  if (!limit.max_memory_peak_bytes) return;
  for (const ArmResult& arm : record.arms) {
    const auto peak = static_cast<double>(arm.memory_peak_bytes);
    if (peak <= 0) continue;
    if (peak <= *limit.max_memory_peak_bytes) {
      list.keep("memory");
    } else {
      list.add("memory", "over_memory", one,
               fmt::format("{}: {} took {}, limit {}", where_words(one), arm.arm,
                           format_bytes(peak), format_bytes(*limit.max_memory_peak_bytes)))
          .arm = arm.arm;
    }
  }
}

void judge_memory_estimate(const NodeObservation& one, double limit, FindingList& list) {
  for (const ArmResult& arm : one.record->arms) {
    if (arm.memory_peak_bytes <= 0 || arm.memory_estimate_bytes <= 0) continue;
    const auto peak = static_cast<double>(arm.memory_peak_bytes);
    const auto planned = static_cast<double>(arm.memory_estimate_bytes);
    if (peak <= limit * planned) {
      list.keep("memory");
    } else {
      list.add("memory", "over_memory", one,
               fmt::format("{}: {} took {}, {:.2f} times the {} that were planned, limit {:.2f}",
                           where_words(one), arm.arm, format_bytes(peak), peak / planned,
                           format_bytes(planned), limit))
          .arm = arm.arm;
    }
  }
}

void judge_scopes(const NodeObservation& one, const ArmEvidence& evidence,
                  const AcceptanceRules& rules, FindingList& list) {
  std::vector<std::string> missing;
  for (const std::string& scope : rules.evidence_scopes) {
    const bool tested = std::ranges::any_of(evidence.scopes, [&](const ScopeEvidence& s) {
      return s.scope == scope && s.tested && s.compared > 0;
    });
    if (!tested) missing.push_back(scope);
  }
  if (missing.empty()) return list.keep("evidence");
  std::string words;
  for (const std::string& scope : missing) words += (words.empty() ? "" : ", ") + scope;
  list.add("evidence", "evidence_missing", one,
           fmt::format("{}: the bits of {} were not compared over {}", where_words(one),
                       evidence.arm, words))
      .arm = evidence.arm;
}

// Of an arm that claims to reproduce its bits and does not, or has nothing to show for it.
void add_unreproduced(const NodeObservation& one, const std::string& arm,
                      const ArmEvidence* evidence, FindingList& list) {
  if (evidence == nullptr) {
    list.add("evidence", "no_evidence", one,
             fmt::format("{}: {} has no evidence that its bits are reproduced", where_words(one),
                         arm))
        .arm = arm;
    return;
  }
  std::string first;
  for (const ScopeEvidence& scope : evidence->scopes) {
    if (first.empty() && scope.tested && !scope.equal)
      first = fmt::format(" over {}: {}", scope.scope, scope.first_difference);
  }
  if (first.empty() && evidence->ranks.tested && !evidence->ranks.equal)
    first = ": ranks disagree: " + evidence->ranks.first_difference;
  list.add("evidence", "not_reproducible", one,
           fmt::format("{}: {} did not reproduce its bits{}", where_words(one), arm, first))
      .arm = arm;
}

void judge_evidence(const NodeObservation& one, const AcceptanceRules& rules, FindingList& list) {
  const Record& record = *one.record;
  // Then it stands there already.
  if (record.verdict.exit_code == static_cast<int>(ExitCode::not_bit_exact)) return;
  for (const ArmResult& arm : record.arms) {
    if (!arm.claims_reproducible) continue;
    const ArmEvidence* evidence = find_evidence(record, arm.arm);
    if (evidence == nullptr || !reproduced(*evidence)) {
      add_unreproduced(one, arm.arm, evidence, list);
    } else {
      judge_scopes(one, *evidence, rules, list);
    }
  }
  if (record.evidence.blindness.empty()) return;
  const std::string words = where_words(one) + ": " + record.evidence.blindness;
  if (rules.fast_must_differ) {
    list.add("evidence", "evidence_missing", one, words);
  } else {
    list.note(words);
  }
}

}  // namespace

void judge_case(const NodeObservation& one, const AcceptanceRules& rules, FindingList& list) {
  judge_verdict(one, rules, list);
  if (one.record->verdict.status == Status::skipped) return;
  if (one.attempts > rules.max_attempts) {
    list.add("attempts", "too_many_attempts", one,
             fmt::format("{} took {}, limit {}", where_words(one),
                         format_things(one.attempts, "attempt"), rules.max_attempts));
  } else {
    list.keep("attempts");
  }
  if (one.record->verdict.status == Status::error) return;
  for (const CaseLimit& limit : rules.limits) {
    if (matches_glob(limit.pattern, one.case_id)) judge_limit(one, limit, list);
  }
  judge_memory_estimate(one, rules.max_memory_estimate_ratio, list);
  judge_evidence(one, rules, list);
}

}  // namespace dettax
