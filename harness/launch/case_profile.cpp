#include "harness/launch/case_profile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/launch/memory.h"
#include "harness/launch/profile_rounds.h"
#include "harness/launch/sufficient_set.h"
#include "harness/measure/ablation.h"
#include "harness/measure/measure.h"
#include "harness/plan/toggles.h"
#include "profiles/attribution.h"

namespace dettax {
namespace {

constexpr size_t kPathsKept = 20;
constexpr const char* kUnmapped = "unmapped";

// Mean over steps and ranks, as recorded steps are averaged.
double mean_seconds(const std::vector<Block>& blocks) {
  double sum = 0;
  int64_t count = 0;
  for (const Block& block : blocks) {
    for (const auto& rank : block.step_time_seconds) {
      sum = std::accumulate(rank.begin(), rank.end(), sum);
      count += static_cast<int64_t>(rank.size());
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// A group and what came of it.
struct Profiled {
  ProfiledBlocks blocks;
  std::vector<Trace> traces;
};

std::vector<Profiled> profile(const std::vector<ArmGroup*>& groups, const RoundPlan& plan,
                              const std::string& what, const ProfileContext& context) {
  std::vector<ProfiledBlocks> blocks =
      run_profile_rounds(groups, plan, context.planned.seed, [&](int round) {
        context.on_stage(what + ", round " + std::to_string(round + 1) + " of " +
                         std::to_string(plan.rounds));
      });
  std::vector<Profiled> out;
  for (size_t i = 0; i < groups.size(); ++i)
    out.push_back(
        {std::move(blocks[i]), collect_traces(*groups[i], context.folder / groups[i]->spec().arm)});
  return out;
}

Attribution attribute_to_fast(const Profiled& fast, const Profiled& arm, double confidence) {
  AttributionOptions options;
  options.confidence = confidence;
  options.unprofiled = {{mean_seconds(fast.blocks.plain), mean_seconds(arm.blocks.plain)}};
  return attribute(fast.traces, arm.traces, options);
}

MechanismTime mechanism_time(const std::string& name, const AttributedTime& time) {
  return {name, time.fast_seconds, time.deterministic_seconds, time.delta_seconds};
}

void fill(ArmProfile& profile, const Attribution& attribution) {
  profile.ranks = attribution.deterministic.ranks;
  profile.steps = attribution.deterministic.steps;
  profile.fast_seconds = attribution.step.fast_seconds;
  profile.deterministic_seconds = attribution.step.deterministic_seconds;
  for (const MechanismRow& row : attribution.mechanisms)
    profile.mechanisms.push_back(mechanism_time(std::string(key_of(row.mechanism)), row.time));
  profile.mechanisms.push_back(mechanism_time(kUnmapped, attribution.unmapped));
  for (const AttributionRow& row : attribution.rows) {
    if (profile.paths.size() == kPathsKept) break;
    profile.paths.push_back({row.path.empty() ? kUnmapped : row.path,
                             std::string(key_of(row.mechanism)), row.time.fast_seconds,
                             row.time.deterministic_seconds, row.time.delta_seconds});
  }
  profile.distortion_seconds = attribution.distortion_seconds.value_or(0);
  profile.notes = attribution.notes;
}

std::map<std::string, double> mechanism_deltas(const Attribution& attribution) {
  std::map<std::string, double> deltas;
  for (const MechanismRow& row : attribution.mechanisms)
    deltas[std::string(key_of(row.mechanism))] = row.time.delta_seconds;
  deltas[kUnmapped] = attribution.unmapped.delta_seconds;
  return deltas;
}

}  // namespace

std::vector<ArmProfile> profile_arms(const std::vector<ArmGroup*>& groups,
                                     const ProfileContext& context) {
  const double confidence = context.suite.measure.confidence;
  const RoundPlan plan =
      plan_rounds(groups.size(), context.step_seconds, context.suite.profile.budget_seconds);
  const std::vector<Profiled> profiled = profile(groups, plan, "profiling", context);
  const Profiled& fast = profiled.front();
  std::vector<ArmProfile> out;
  for (size_t i = 1; i < groups.size(); ++i) {
    ArmProfile& arm = out.emplace_back();
    arm.arm = groups[i]->spec().arm;
    arm.fast_recording_ratio = paired_ratio(fast.blocks.recorded, fast.blocks.plain, confidence);
    arm.recording_ratio =
        paired_ratio(profiled[i].blocks.recorded, profiled[i].blocks.plain, confidence);
    try {
      fill(arm, attribute_to_fast(fast, profiled[i], confidence));
    } catch (const Error& error) {
      arm.refusal = error.what();
    }
  }
  return out;
}

Ablation run_ablation(Launcher& launcher, const Mode& mode,
                      const std::vector<KnobControl>& controls, const ProfileContext& context) {
  const double confidence = context.suite.measure.confidence;
  const Mode& fast = context.suite.fast;
  const std::vector<Toggle> knobs = toggles(context.planned, fast, mode);
  Ablation refused;
  refused.arm = mode.name;
  if (knobs.empty()) {
    refused.refusal = mode.name + " has every knob that this case has something for as fast has it";
    return refused;
  }
  const auto needed_bytes = static_cast<int64_t>(2 * knobs.size() + 2) *
                            std::max(estimate_memory(context.planned, fast).total(),
                                     estimate_memory(context.planned, mode).total());
  if (needed_bytes > available_memory_bytes()) {
    refused.refusal = fmt::format(
        "{} groups of processes need about {}, {} are available; fewer layers make a proxy",
        2 * knobs.size() + 2, format_bytes(static_cast<double>(needed_bytes)),
        format_bytes(static_cast<double>(available_memory_bytes())));
    return refused;
  }
  std::vector<std::unique_ptr<ArmGroup>> owned;
  std::vector<ArmGroup*> groups;
  const auto start = [&](const std::string& arm, const Mode& its_mode) {
    context.on_stage("ablation: starting " + arm);
    owned.push_back(launcher.start({arm, context.planned, its_mode}, "ablation." + arm));
    groups.push_back(owned.back().get());
  };
  start("fast", fast);
  start(mode.name, mode);
  for (const Toggle& toggle : knobs) {
    start(toggle.alone.name, toggle.alone);
    start(toggle.without.name, toggle.without);
  }
  const RoundPlan plan =
      plan_rounds(groups.size(), context.step_seconds, context.suite.profile.budget_seconds);
  const std::vector<Profiled> profiled = profile(groups, plan, "ablation", context);
  std::set<std::string> notes;
  const auto runs = [&](size_t group) {
    const Attribution attribution = attribute_to_fast(profiled[0], profiled[group], confidence);
    notes.insert(attribution.notes.begin(), attribution.notes.end());
    return AblationRuns{profiled[group].blocks.plain, mechanism_deltas(attribution)};
  };
  std::vector<ToggledKnob> toggled;
  for (size_t i = 0; i < knobs.size(); ++i)
    toggled.push_back(
        {knobs[i].knob, std::string(part_word(knobs[i].part)), runs(2 + 2 * i), runs(3 + 2 * i)});
  Ablation ablation = ablate(mode.name, profiled[0].blocks.plain, runs(1), toggled, confidence);
  ablation.notes.insert(ablation.notes.end(), notes.begin(), notes.end());
  owned.clear();
  ablation.sufficient = find_sufficient_set(launcher, mode, knobs, controls, context);
  return ablation;
}

}  // namespace dettax
