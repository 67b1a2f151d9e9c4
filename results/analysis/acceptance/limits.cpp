// Limits that were asked for and judge nothing: of a case or an arm that was not run, or is written otherwise.
#include <algorithm>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "results/analysis/acceptance/findings.h"

namespace dettax {
namespace {

bool takes_an_arm(const NodeObservation& one, const std::string& pattern) {
  return std::ranges::any_of(one.record->arms, [&](const ArmResult& arm) {
    return arm.arm != "fast" && arm.arm != "control" && matches_glob(pattern, arm.arm);
  });
}

void judge_use(const std::vector<NodeObservation>& all, const CaseLimit& limit, FindingList& list) {
  bool any_case = false, any_arms = false, any_arm = false;
  for (const NodeObservation& one : all) {
    if (!matches_glob(limit.pattern, one.case_id)) continue;
    any_case = true;
    any_arms = any_arms || !one.record->arms.empty();
    any_arm = any_arm || takes_an_arm(one, limit.arm);
  }
  if (!any_case) {
    list.add("cases", "limit_unused", {},
             fmt::format("the limit of case \"{}\" judges nothing: no record is of such a case",
                         limit.pattern));
  } else if (any_arms && !any_arm && limit.max_overhead_ratio && limit.arm != "*") {
    list.add("cases", "limit_unused", {},
             fmt::format(
                 "the limit of case \"{}\" and arm \"{}\" judges nothing: no record has such a "
                 "deterministic arm",
                 limit.pattern, limit.arm))
        .arm = limit.arm;
  }
}

}  // namespace

void judge_limits_used(const std::vector<NodeObservation>& all, const AcceptanceRules& rules,
                       FindingList& list) {
  if (all.empty()) return;
  for (const CaseLimit& limit : rules.limits) judge_use(all, limit, list);
}

}  // namespace dettax
