#include "harness/launch/sufficient_set.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/knob_places.h"
#include "harness/evidence/ledger.h"
#include "harness/launch/timed_group.h"
#include "harness/measure/measure.h"

namespace dettax {
namespace {

// In one group of processes, under stress; one more in another.
constexpr int kRunsInProcess = 6;
// Of the profile's budget, for timing the set that was found.
constexpr double kTimingShare = 0.25;

Ledger make_ledger(ArmGroup& group, const std::string& label, uint64_t stress,
                   const ProfileContext& context) {
  const std::filesystem::path path = context.folder / fmt::format("{}.ledger", label);
  group.write_ledger(context.planned.seed, context.suite.evidence.steps, path, stress);
  std::ifstream in(path, std::ios::binary);
  return read_ledger(in, path.string());
}

// Where runs of a mode first differed; nothing if they agreed.
std::optional<std::string> first_difference(Launcher& launcher, const ArmSpec& spec, int64_t& runs,
                                            const ProfileContext& context) {
  const auto label = [&](const std::string& run) { return "sufficient." + run; };
  std::optional<Ledger> first;
  const auto differs = [&](ArmGroup& group, uint64_t stress) -> std::optional<std::string> {
    Ledger ledger = make_ledger(group, label(first ? "again" : "first"), stress, context);
    ++runs;
    if (!first) {
      first = std::move(ledger);
      return std::nullopt;
    }
    const LedgerComparison comparison = compare_ledgers(*first, ledger);
    if (!comparison.first) return std::nullopt;
    return comparison.first->path;
  };
  const auto in_group = [&](int times) -> std::optional<std::string> {
    const auto group = launcher.start(spec, "sufficient");
    for (int i = 0; i < times; ++i) {
      if (auto path = differs(*group, static_cast<uint64_t>(runs + 1))) return path;
    }
    return std::nullopt;
  };
  if (auto path = in_group(kRunsInProcess)) return path;
  return in_group(1);
}

// The knob not yet taken in that acts at this place.
std::optional<std::string> knob_at(const std::string& path, const std::vector<Toggle>& knobs,
                                   const std::vector<std::string>& taken) {
  for (const Toggle& toggle : knobs) {
    if (std::ranges::find(taken, toggle.knob) != taken.end()) continue;
    if (toggle.knob != "environment" && acts_at(knob_named(toggle.knob), path)) return toggle.knob;
  }
  return std::nullopt;
}

std::vector<std::string> needed(const std::vector<Toggle>& knobs,
                                const std::vector<KnobControl>& controls) {
  std::vector<std::string> names;
  for (const Toggle& toggle : knobs) {
    const auto row = std::ranges::find(controls, toggle.knob, &KnobControl::knob);
    const bool seen = row != controls.end() && (row->status == ControlStatus::caught ||
                                                row->status == ControlStatus::misplaced);
    if (seen) names.push_back(toggle.knob);
  }
  return names;
}

std::optional<Estimate> time_against_fast(Launcher& launcher, const ArmSpec& spec,
                                          const ProfileContext& context) {
  const auto fast = launcher.start({"fast", spec.planned, context.suite.fast}, "sufficient.fast");
  const auto set = launcher.start(spec, "sufficient.timed");
  TimedGroup a(*fast), b(*set);
  MeasureSettings settings = context.suite.measure;
  settings.budget_seconds = context.suite.profile.budget_seconds * kTimingShare;
  const Measurement measurement = measure(
      {&a, &b}, settings, spec.planned.seed, steady_clock(), [&](const MeasureProgress& progress) {
        context.on_stage(fmt::format("timing {}, round {}", spec.arm, progress.round));
      });
  if (measurement.failure) throw Error(measurement.failure->kind, measurement.failure->message);
  return paired_ratio(measurement.blocks.at(1), measurement.blocks.at(0), settings.confidence);
}

}  // namespace

SufficientSet find_sufficient_set(Launcher& launcher, const Mode& mode,
                                  const std::vector<Toggle>& knobs,
                                  const std::vector<KnobControl>& controls,
                                  const ProfileContext& context) {
  SufficientSet set;
  set.knobs = needed(knobs, controls);
  for (;;) {
    const Mode candidate = with_toggles(context.suite.fast, mode, set.knobs);
    const ArmSpec spec{set.knobs.empty() ? "fast" : candidate.name, context.planned, candidate};
    context.on_stage("evidence: is it enough to set " +
                     (set.knobs.empty() ? "nothing" : join(set.knobs, ", ")));
    const auto path = first_difference(launcher, spec, set.runs, context);
    if (!path) {
      set.reproducible = true;
      set.overhead_ratio = time_against_fast(launcher, spec, context);
      return set;
    }
    const auto next = knob_at(*path, knobs, set.knobs);
    if (!next) {
      set.reason = "runs differ at " + *path + ", where no further knob acts";
      return set;
    }
    set.knobs.push_back(*next);
  }
}

}  // namespace dettax
