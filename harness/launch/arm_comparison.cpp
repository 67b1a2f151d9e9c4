#include "harness/launch/arm_comparison.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "harness/base/text.h"
#include "harness/evidence/ledger.h"
#include "harness/measure/measure.h"
#include "harness/plan/knobs.h"

namespace dettax {
namespace {

// Ops whose kernel a knob chooses, as paths name them.
struct KnobOps {
  Knob knob;
  std::string_view ops;
};
constexpr KnobOps kKnobOps[] = {
    {Knob::gemm,
     "qkv_weight projection_weight mlp_up_weight mlp_down_weight head_weight head_loss"},
    {Knob::attention, "backward/attention"},
    {Knob::embedding, "backward/embedding"},
    {Knob::norm, "backward/norm1 backward/norm2 backward/final_norm"},
    {Knob::loss, "loss_sum reduce/loss"},
    {Knob::moe, "moe"},
    {Knob::grad_norm, "gradient_norm"},
    {Knob::collectives, "reduce/loss reduce/bucket"},
    {Knob::schedule, "all"},
    {Knob::memory_fill, "memory_fill"},
    {Knob::index_ops, "backward/embedding cross_entropy head_loss"},
    {Knob::overlap, "reduce/bucket"},
    {Knob::fused_loss, "head head_weight cross_entropy head_loss"},
};

std::vector<std::string> ops_of(Knob knob) {
  for (const KnobOps& row : kKnobOps) {
    if (row.knob == knob) return split(row.ops, ' ');
  }
  return {};
}

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
  for (const ArmEvidence& evidence : record.evidence.arms) {
    if (evidence.arm != arm || evidence.ledger_file.empty()) continue;
    std::ifstream file(folder / evidence.ledger_file);
    if (!file) return std::nullopt;
    return read_ledger(file, evidence.ledger_file);
  }
  return std::nullopt;
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

const ArmResult* find_arm(const Record& record, std::string_view name) {
  const auto found = std::find_if(record.arms.begin(), record.arms.end(),
                                  [&](const ArmResult& arm) { return arm.arm == name; });
  return found == record.arms.end() ? nullptr : &*found;
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
