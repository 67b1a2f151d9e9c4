#include "exporters/tax_state.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exporters/words.h"
#include "harness/base/format.h"

namespace dettax {

const char* to_string(TaxState state) {
  switch (state) {
    case TaxState::measured:
      return "measured";
    case TaxState::unresolved:
      return "unresolved";
    case TaxState::incomparable:
      return "incomparable";
    case TaxState::no_evidence:
      return "no_evidence";
    case TaxState::emulated:
      return "emulated";
    case TaxState::no_claim:
      return "no_claim";
    case TaxState::unfinished:
      return "unfinished";
  }
  return "unfinished";
}

namespace {

bool finite(const Estimate& estimate) {
  return std::isfinite(estimate.value) && std::isfinite(estimate.low) &&
         std::isfinite(estimate.high);
}

bool ended_early(const Record& record) {
  const Verdict& verdict = record.verdict;
  return verdict.status == Status::error || verdict.status == Status::skipped ||
         verdict.reason_code == "non_finite" ||
         verdict.reason_code == "not_runnable_deterministically";
}

bool broke(const Record& record, std::string_view arm) {
  const ArmResult* found = find_arm(record, arm);
  return found == nullptr || !found->failure_code.empty();
}

}  // namespace

TaxState tax_state(const Record& record, const Tax& tax) {
  if (!record.precision_note.empty()) return TaxState::emulated;
  if (ended_early(record) || broke(record, tax.arm) || broke(record, "fast"))
    return TaxState::unfinished;
  if (!claims(record, tax.arm)) return TaxState::no_claim;
  if (!tax.published) return TaxState::no_evidence;
  if (!finite(tax.overhead_ratio)) return TaxState::unfinished;
  if (record.verdict.reason_code == "control_differs") return TaxState::incomparable;
  return record.verdict.status == Status::inconclusive ? TaxState::unresolved : TaxState::measured;
}

const Estimate* speed_of(const Record& record, const ArmResult& arm) {
  if (!record.precision_note.empty() || !arm.failure_code.empty()) return nullptr;
  if (record.verdict.status == Status::error || record.verdict.status == Status::skipped)
    return nullptr;
  if (!arm.step_time_seconds || !std::isfinite(arm.step_time_seconds->value)) return nullptr;
  const Estimate* speed = &*arm.step_time_seconds;
  if (!arm.claims_reproducible) return speed;
  const auto tax = std::find_if(record.taxes.begin(), record.taxes.end(),
                                [&](const Tax& one) { return one.arm == arm.arm; });
  if (tax == record.taxes.end()) return nullptr;
  const TaxState state = tax_state(record, *tax);
  const bool counts = state != TaxState::no_evidence && state != TaxState::unfinished;
  return counts ? speed : nullptr;
}

std::string tax_words(const Record& record, const Tax& tax) {
  const Estimate& ratio = tax.overhead_ratio;
  switch (tax_state(record, tax)) {
    case TaxState::measured:
      return percent(ratio.value);
    case TaxState::unresolved:
      return fmt::format("between {} and {}: not resolved", percent(ratio.low),
                         percent(ratio.high));
    case TaxState::incomparable:
      return "none: the control arm differs";
    case TaxState::no_evidence:
      return "void: no evidence";
    case TaxState::emulated:
      return "void: emulated";
    case TaxState::no_claim:
      return "none: nothing is claimed";
    case TaxState::unfinished:
      return "none: not finished";
  }
  return "none";
}

namespace {

void add_once(std::vector<std::string>& all, const std::string& text) {
  if (!text.empty() && std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
}

// Of nodes and links, as the workers found them.
void add_emulated_topology(std::vector<std::string>& all, const Record& record) {
  for (const ArmResult& arm : record.arms) {
    for (const char* what : {"nodes", "links"}) {
      const auto found = arm.engaged.find(what);
      if (found != arm.engaged.end() && found->second.find("emulated") != std::string::npos)
        add_once(all, fmt::format("{} {}", what, found->second));
    }
  }
}

void add_causes_not_shown(std::vector<std::string>& all, const Record& record) {
  for (const ArmProfile& profile : record.profiles) {
    if (!profile.refusal.empty())
      add_once(all, fmt::format("causes of {}: {}", profile.arm, profile.refusal));
  }
  if (!record.ablation) return;
  const Ablation& ablation = *record.ablation;
  if (!ablation.refusal.empty()) {
    add_once(all, fmt::format("knobs of {}: {}", ablation.arm, ablation.refusal));
  } else if (!ablation.sufficient.reproducible) {
    add_once(all, fmt::format("a smaller set of knobs of {}: {}", ablation.arm,
                              ablation.sufficient.reason));
  }
}

}  // namespace

std::vector<std::string> caveats(const Record& record) {
  std::vector<std::string> all;
  for (const Injection& fault : record.planned.injections) {
    add_once(all, fmt::format("fault put in on purpose: {}{} in {}, so these are no numbers of "
                              "this machine",
                              fault.kind,
                              fault.kind == "slow" ? " by " + format_percent(fault.ratio) : "",
                              fault.arm.empty() ? "every arm" : fault.arm));
  }
  add_once(all, record.precision_note);
  const Model& model = record.planned.model;
  if (!record.arms.empty() && model.layers < model.published_layers)
    add_once(all, fmt::format("proxy: {} of the {} layers of {} ran", model.layers,
                              model.published_layers, model.name));
  add_emulated_topology(all, record);
  for (const Tax& tax : record.taxes) {
    for (const std::string& warning : tax.warnings) add_once(all, warning);
  }
  return all;
}

std::vector<std::string> not_shown(const Record& record) {
  std::vector<std::string> all;
  for (const Tax& tax : record.taxes) {
    if (!has_value(tax_state(record, tax)))
      add_once(all, fmt::format("the tax of {}: {}", tax.arm, tax_words(record, tax)));
  }
  add_once(all, record.evidence.blindness);
  for (const ArmEvidence& arm : record.evidence.arms) {
    for (const ScopeEvidence& scope : arm.scopes) {
      if (!scope.tested) add_once(all, fmt::format("{}: {} was not tested", arm.arm, scope.scope));
    }
  }
  std::vector<KnobControl> open;
  for (const KnobControl& control : record.evidence.controls) {
    if (control.status != ControlStatus::caught) open.push_back(control);
  }
  if (!open.empty()) add_once(all, "controls: " + control_words(open));
  add_causes_not_shown(all, record);
  return all;
}

}  // namespace dettax
