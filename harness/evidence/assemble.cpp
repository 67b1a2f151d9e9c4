#include "harness/evidence/assemble.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/evidence/cause.h"
#include "harness/evidence/rank_agreement.h"

namespace dettax {
namespace {

constexpr const char* kSameProcess = "same_process";
constexpr const char* kRelaunch = "relaunch";

const std::vector<Ledger>* runs_of(const ArmLedgers& arm, const std::string& scope) {
  for (const ScopeLedgers& one : arm.scopes) {
    if (one.scope == scope && !one.runs.empty()) return &one.runs;
  }
  return nullptr;
}

const ArmLedgers* find_arm(const std::vector<ArmLedgers>& arms, const std::string& name) {
  const auto found = std::find_if(arms.begin(), arms.end(),
                                  [&](const ArmLedgers& arm) { return arm.arm == name; });
  return found == arms.end() ? nullptr : &*found;
}

// The reference against every other run; the first difference found speaks for the scope.
ScopeEvidence compare_scope(const std::string& scope, const Knobs& knobs, const Ledger& reference,
                            const std::vector<const Ledger*>& others) {
  ScopeEvidence evidence;
  evidence.scope = scope;
  evidence.runs = static_cast<int64_t>(others.size()) + 1;
  evidence.tested = !others.empty();
  evidence.equal = evidence.tested;
  CompareOptions options;
  options.allow_other_layout = scope == "other_threads" || scope == "other_ranks";
  for (const Ledger* other : others) {
    const LedgerComparison comparison = compare_ledgers(reference, *other, options);
    evidence.compared += comparison.compared;
    if (comparison.equal) continue;
    if (evidence.equal) {
      evidence.first_difference = comparison.description;
      if (comparison.first) evidence.first_difference_op = comparison.first->path;
      const size_t ranks = std::max(reference.ranks.size(), other->ranks.size());
      const Cause cause = cause_of(comparison, knobs, scope, absent_knobs(reference, ranks));
      evidence.cause = cause.name;
      evidence.advice = cause.advice;
    }
    evidence.equal = false;
  }
  return evidence;
}

ArmEvidence assemble_arm(const ArmLedgers& arm, const Ledger* relaunched_as_control) {
  ArmEvidence evidence;
  evidence.arm = arm.arm;
  evidence.ledger_file = arm.ledger_file;
  const std::vector<Ledger>* same_process = runs_of(arm, kSameProcess);
  if (same_process == nullptr) return evidence;
  const Ledger& reference = same_process->front();
  evidence.ledger_digest = digest(reference);
  evidence.ranks = ranks_agreement(reference);
  bool relaunch_seen = false;
  for (const ScopeLedgers& scope : arm.scopes) {
    std::vector<const Ledger*> others;
    for (const Ledger& run : scope.runs) {
      if (&run != &reference) others.push_back(&run);
    }
    if (scope.scope == kRelaunch && relaunched_as_control != nullptr)
      others.push_back(relaunched_as_control);
    relaunch_seen = relaunch_seen || scope.scope == kRelaunch;
    evidence.scopes.push_back(compare_scope(scope.scope, arm.knobs, reference, others));
  }
  if (!relaunch_seen && relaunched_as_control != nullptr)
    evidence.scopes.push_back(
        compare_scope(kRelaunch, arm.knobs, reference, {relaunched_as_control}));
  bool same_process_tested = false;
  evidence.reproducible = true;
  for (const ScopeEvidence& scope : evidence.scopes) {
    same_process_tested = same_process_tested || (scope.scope == kSameProcess && scope.tested);
    evidence.reproducible = evidence.reproducible && (!scope.tested || scope.equal);
  }
  evidence.reproducible = evidence.reproducible && same_process_tested &&
                          (!evidence.ranks.tested || evidence.ranks.equal);
  return evidence;
}

void judge_blindness(Evidence& evidence) {
  int64_t runs = 0;
  for (const ArmEvidence& arm : evidence.arms) {
    if (arm.arm != "fast" && arm.arm != "control") continue;
    for (const ScopeEvidence& scope : arm.scopes) {
      if (!scope.tested) continue;
      runs += scope.runs - 1;
      // A pair that could not be compared has not shown a difference of bits.
      evidence.fast_differed =
          evidence.fast_differed || (!scope.equal && !scope.first_difference_op.empty());
    }
  }
  if (evidence.fast_differed) return;
  evidence.blindness = runs == 0 ? "the fast arm was not repeated, so that nothing shows whether "
                                   "this case could tell a difference."
                                 : fmt::format(
                                       "the fast arm repeated its bits too, in {} comparison{}: "
                                       "there is nothing to pay for, or the case cannot show it.",
                                       runs, runs == 1 ? "" : "s");
}

}  // namespace

Evidence assemble_evidence(const std::vector<ArmLedgers>& arms) {
  const ArmLedgers* control = find_arm(arms, "control");
  const std::vector<Ledger>* control_runs =
      control == nullptr ? nullptr : runs_of(*control, kSameProcess);
  Evidence evidence;
  for (const ArmLedgers& arm : arms) {
    const bool twin = arm.arm == "fast" && control_runs != nullptr;
    evidence.arms.push_back(assemble_arm(arm, twin ? &control_runs->front() : nullptr));
  }
  judge_blindness(evidence);
  return evidence;
}

}  // namespace dettax
