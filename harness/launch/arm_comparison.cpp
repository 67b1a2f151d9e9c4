#include "harness/launch/arm_comparison.h"

#include <fstream>
#include <optional>
#include <string_view>

#include "harness/evidence/knob_places.h"
#include "harness/evidence/ledger.h"
#include "harness/measure/measure.h"
#include "harness/plan/knobs.h"

namespace dettax {
namespace {

// As found where it is known, else as asked.
std::string value_of(const ArmResult& arm, const std::string& knob) {
  const auto found = arm.engaged.find(knob);
  if (found != arm.engaged.end()) return found->second;
  const auto asked = arm.knobs.find(knob);
  return asked == arm.knobs.end() ? "" : asked->second;
}

std::vector<VariantChange> changes(const ArmResult& arm, const ArmResult& fast) {
  std::vector<VariantChange> out;
  for (const KnobInfo& info : knob_table()) {
    const std::string name(info.name);
    const std::string before = value_of(fast, name), after = value_of(arm, name);
    if (before == after) continue;
    out.push_back({name, before, after, ops_of(info.knob)});
  }
  return out;
}

// The one knob in which two arms differ, if all else is equal.
std::optional<std::string> only_difference(const ArmResult& a, const ArmResult& b) {
  if (a.environment != b.environment || a.knobs.size() != b.knobs.size()) return std::nullopt;
  std::optional<std::string> found;
  for (const auto& [knob, value] : a.knobs) {
    const auto other = b.knobs.find(knob);
    if (other == b.knobs.end()) return std::nullopt;
    if (other->second == value) continue;
    if (found) return std::nullopt;
    found = knob;
  }
  return found;
}

std::optional<Ledger> ledger_of(const Record& record, const std::string& arm,
                                const std::filesystem::path& folder) {
  const ArmEvidence* evidence = find_evidence(record, arm);
  if (evidence == nullptr || evidence->ledger_file.empty()) return std::nullopt;
  std::ifstream file(folder / evidence->ledger_file, std::ios::binary);
  if (!file) return std::nullopt;
  return read_ledger(file, evidence->ledger_file);
}

// The two are other modes on purpose, so only their bits are compared.
std::string bits_against(const Record& record, const std::string& a, const std::string& b,
                         const std::filesystem::path& folder) {
  const auto left = ledger_of(record, a, folder), right = ledger_of(record, b, folder);
  if (!left || !right) return "not compared";
  CompareOptions options;
  options.force = true;
  const LedgerComparison comparison = compare_ledgers(*left, *right, options);
  return comparison.equal ? "equal" : "differ";
}

std::optional<Contrast> contrast(const Record& record, const ArmResult& arm,
                                 const ArmResult& against, const std::string& knob,
                                 const std::filesystem::path& folder, double confidence) {
  const auto ratio = paired_ratio(arm.blocks, against.blocks, confidence);
  if (!ratio || !against.step_time_seconds) return std::nullopt;
  const double base = against.step_time_seconds->value;
  Contrast out;
  out.arm = arm.arm;
  out.against = against.arm;
  out.knob = knob;
  out.value = arm.knobs.at(knob);
  out.against_value = against.knobs.at(knob);
  out.ratio = *ratio;
  out.seconds_per_step = {base * (ratio->value - 1), base * (ratio->low - 1),
                          base * (ratio->high - 1), ratio->count};
  out.bits = bits_against(record, arm.arm, against.arm, folder);
  return out;
}

}  // namespace

void compare_arms(Record& record, const std::filesystem::path& folder, double confidence) {
  const ArmResult* fast = find_arm(record, "fast");
  if (fast == nullptr) return;
  for (ArmResult& arm : record.arms) arm.changed = changes(arm, *fast);
  // A contrast with fast is the tax.
  for (size_t later = 0; later < record.arms.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      const ArmResult &arm = record.arms[later], &against = record.arms[earlier];
      if (against.mode == fast->mode || arm.mode == fast->mode) continue;
      const auto knob = only_difference(arm, against);
      if (!knob) continue;
      auto found = contrast(record, arm, against, *knob, folder, confidence);
      if (found) record.contrasts.push_back(std::move(*found));
    }
  }
}

}  // namespace dettax
