#include "exporters/mode_words.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/plan/knobs.h"
#include "results/reason.h"

namespace dettax {
namespace {

std::string signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + format_seconds(seconds < 0 ? -seconds : seconds);
}

bool touches_order(const std::string& knob) {
  const auto& table = knob_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const KnobInfo& info) { return info.name == knob; });
  return found == table.end() || found->part == TaxPart::ordering;
}

// Of the two arms the one that fills, with what its own clock says of it.
std::string fill_words(const Record& record, const Contrast& contrast) {
  if (contrast.knob != "memory_fill") return "";
  const bool here = contrast.value == "on";
  const ArmResult* arm = find_arm(record, here ? contrast.arm : contrast.against);
  if (arm == nullptr || arm->fills_per_step.count == 0) return "";
  const Fills& fills = arm->fills_per_step;
  const Estimate& change = contrast.seconds_per_step;
  // The host's clock sees what fills take only where the host does them.
  if (record.planned.backend != Backend::cpu) {
    return fmt::format("; {} fills {} buffers a step, {}", arm->arm, fills.count,
                       format_bytes(static_cast<double>(fills.bytes)));
  }
  const double own = here ? fills.seconds : -fills.seconds;
  const bool inside = change.low <= own && own <= change.high;
  return fmt::format("; {} fills {} buffers a step, {}, in {}, which is {} that interval", arm->arm,
                     fills.count, format_bytes(static_cast<double>(fills.bytes)),
                     format_seconds(fills.seconds), inside ? "within" : "outside");
}

std::string words_of(const Record& record, const Contrast& contrast) {
  const Estimate& ratio = contrast.ratio;
  const Estimate& seconds = contrast.seconds_per_step;
  return fmt::format(
      "{} {} -> {} alone: {} ({} to {}, n = {}), {} a step ({} to {}), bits {}{}{} ({} against {})",
      contrast.knob, contrast.against_value, contrast.value, format_signed_percent(ratio.value - 1),
      format_signed_percent(ratio.low - 1), format_signed_percent(ratio.high - 1), ratio.count,
      signed_seconds(seconds.value), signed_seconds(seconds.low), signed_seconds(seconds.high),
      contrast.bits, touches_order(contrast.knob) ? "" : ", no order of sums touched",
      fill_words(record, contrast), contrast.arm, contrast.against);
}

// What a machine did not do is no variant's doing.
bool may_be_of_a_variant(const std::string& failure_code) {
  if (failure_code.empty()) return false;
  const ExitCode code = reason_info(failure_code).exit_code;
  return code == ExitCode::fail || code == ExitCode::not_bit_exact;
}

}  // namespace

std::vector<std::string> environment_words(const Record& record) {
  std::vector<std::string> lines;
  for (const ArmResult& arm : record.arms) {
    if (arm.arm == "control") continue;  // as fast
    std::vector<std::string> settings;
    for (const auto& [name, value] : arm.environment) {
      const auto before = arm.environment_before.find(name);
      settings.push_back(fmt::format(
          "{}={} ({})", name, value,
          before == arm.environment_before.end() ? "was not set" : "was " + before->second));
    }
    if (!settings.empty())
      lines.push_back(
          fmt::format("set for the processes of {}: {}", arm.arm, join(settings, ", ")));
  }
  return lines;
}

std::vector<std::string> changed_variant_words(const Record& record) {
  std::vector<std::string> lines;
  for (const ArmResult& arm : record.arms) {
    if (arm.changed.empty() || !may_be_of_a_variant(arm.failure_code)) continue;
    std::vector<std::string> changes;
    for (const VariantChange& change : arm.changed) {
      changes.push_back(fmt::format("{} {} -> {} ({})", change.knob, change.fast, change.here,
                                    join(change.ops, ", ")));
    }
    lines.push_back(
        fmt::format("{} runs other variants than fast: {}", arm.arm, join(changes, "; ")));
  }
  return lines;
}

std::vector<std::string> contrast_words(const Record& record) {
  std::vector<std::string> lines;
  for (const Contrast& contrast : record.contrasts) lines.push_back(words_of(record, contrast));
  return lines;
}

}  // namespace dettax
