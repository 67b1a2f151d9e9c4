#include "exporters/cause_tables.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "exporters/words.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

using Cell = Grid::Cell;

constexpr size_t kPathsShown = 8;
constexpr size_t kBarWidth = 24;

std::string interval_of(const std::optional<Estimate>& seconds) {
  if (!seconds) return "none";
  return fmt::format("[{}, {}]", signed_seconds(seconds->low), signed_seconds(seconds->high));
}

std::vector<Cell> dim(std::vector<std::string> names) {
  std::vector<Cell> row;
  for (std::string& name : names) row.push_back({std::move(name), Colour::dim});
  return row;
}

std::string recording_words(const std::string& arm, const std::optional<Estimate>& ratio) {
  if (!ratio) return arm + " by an amount not known";
  return fmt::format("{} by {} ({} to {}, n = {})", arm, format_signed_percent(ratio->value - 1, 2),
                     format_signed_percent(ratio->low - 1, 2),
                     format_signed_percent(ratio->high - 1, 2), ratio->count);
}

}  // namespace

Grid mechanism_grid(const ArmProfile& profile) {
  Grid rows(1);
  rows.add(dim({"mechanism", "fast", profile.arm, "difference"}));
  for (const MechanismTime& time : profile.mechanisms)
    rows.add({{time.mechanism},
              {format_seconds(time.fast_seconds)},
              {format_seconds(time.deterministic_seconds)},
              {signed_seconds(time.delta_seconds)}});
  rows.add({{"recorded step", Colour::bold},
            {format_seconds(profile.fast_seconds)},
            {format_seconds(profile.deterministic_seconds)},
            {signed_seconds(profile.deterministic_seconds - profile.fast_seconds), Colour::bold}});
  return rows;
}

Grid path_grid(const ArmProfile& profile) {
  Grid rows(2);
  rows.add(dim({"largest differences", "mechanism", "fast", profile.arm, "difference"}));
  for (size_t i = 0; i < std::min(kPathsShown, profile.paths.size()); ++i) {
    const PathTime& time = profile.paths[i];
    rows.add({{time.path},
              {time.mechanism},
              {format_seconds(time.fast_seconds)},
              {format_seconds(time.deterministic_seconds)},
              {signed_seconds(time.delta_seconds)}});
  }
  return rows;
}

std::vector<std::string> profile_words(const ArmProfile& profile) {
  std::vector<std::string> words;
  if (!profile.refusal.empty()) {
    words.push_back(fmt::format("{}: nothing attributed: {}", profile.arm, profile.refusal));
    return words;
  }
  words.push_back(fmt::format(
      "{} recorded steps on {} ranks; recording changed the step of {}, of {}; the difference "
      "itself by {}",
      profile.steps, profile.ranks, recording_words("fast", profile.fast_recording_ratio),
      recording_words(profile.arm, profile.recording_ratio),
      signed_seconds(-profile.distortion_seconds)));
  for (const std::string& note : profile.notes) words.push_back(note);
  return words;
}

Grid ablation_grid(const Ablation& ablation) {
  std::vector<const KnobCost*> costs;
  for (const KnobCost& cost : ablation.knobs) costs.push_back(&cost);
  costs.push_back(&ablation.interaction);
  costs.push_back(&ablation.total);
  // A mechanism that takes no time in any setting needs no column.
  std::vector<size_t> shown;
  for (size_t i = 0; i < ablation.mechanisms.size(); ++i) {
    if (std::ranges::any_of(costs, [&](const KnobCost* cost) { return cost->cells.at(i) != 0; }))
      shown.push_back(i);
  }
  std::vector<std::string> names = {"knob"};
  for (const size_t i : shown) names.push_back(ablation.mechanisms[i]);
  for (const char* name : {"recording", "step", "interval"}) names.emplace_back(name);
  Grid rows(1);
  rows.add(dim(names));
  for (const KnobCost* cost : costs) {
    const Colour colour = cost == &ablation.total         ? Colour::bold
                          : cost == &ablation.interaction ? Colour::dim
                                                          : Colour::none;
    std::vector<Cell> row = {{cost->knob, colour}};
    for (const size_t i : shown) row.push_back({signed_seconds(cost->cells[i])});
    row.push_back({signed_seconds(cost->recording_seconds)});
    row.push_back({signed_seconds(total_seconds(*cost)), colour});
    row.push_back({interval_of(cost->seconds)});
    rows.add(row);
  }
  return rows;
}

Grid waterfall_grid(const Ablation& ablation, double fast_seconds) {
  Grid rows(1);
  rows.add(dim({"from fast to " + ablation.arm, "step", ""}));
  double at = fast_seconds, low = at, high = at;
  std::vector<const KnobCost*> steps;
  for (const KnobCost& cost : ablation.knobs) steps.push_back(&cost);
  steps.push_back(&ablation.interaction);
  for (const KnobCost* cost : steps) {
    at += total_seconds(*cost);
    low = std::min(low, at);
    high = std::max(high, at);
  }
  const double scale = high > low ? static_cast<double>(kBarWidth) / (high - low) : 0;
  const auto column = [&](double seconds) {
    return static_cast<size_t>(std::lround((seconds - low) * scale));
  };
  const auto add = [&](const std::string& name, double from, double to, char mark) {
    const size_t begin = column(std::min(from, to)),
                 end = std::max(column(std::max(from, to)), begin + 1);
    std::string bar(kBarWidth + 1, ' ');
    for (size_t i = begin; i < std::min(end, bar.size()); ++i) bar[i] = mark;
    rows.add({{name}, {format_seconds(to)}, {"|" + bar + "|"}});
  };
  add("fast", fast_seconds, fast_seconds, '|');
  at = fast_seconds;
  for (const KnobCost* cost : steps) {
    const double next = at + total_seconds(*cost);
    add(cost->knob, at, next, next >= at ? '+' : '-');
    at = next;
  }
  add(ablation.arm, at, at, '|');
  return rows;
}

std::vector<std::string> ablation_words(const Ablation& ablation) {
  if (!ablation.refusal.empty()) return {"no matrix of knobs: " + ablation.refusal};
  std::vector<std::string> parts;
  for (const std::string part : {"ordering", "framework", "opportunity"}) {
    double seconds = 0;
    size_t knobs = 0;
    for (const KnobCost& cost : ablation.knobs) {
      if (cost.part != part) continue;
      seconds += total_seconds(cost);
      ++knobs;
    }
    if (knobs > 0) parts.push_back(fmt::format("{} {}", part, signed_seconds(seconds)));
  }
  std::vector<std::string> words = {
      fmt::format("of a step, {} rounds: {}", ablation.rounds, join(parts, ", "))};
  words.insert(words.end(), ablation.notes.begin(), ablation.notes.end());
  const SufficientSet& set = ablation.sufficient;
  if (!set.reproducible) {
    words.push_back("no smaller set of knobs was seen to give equal bits: " + set.reason);
    return words;
  }
  const std::string knobs = set.knobs.empty() ? "no knob at all" : join(set.knobs, ", ");
  const std::string cost = set.overhead_ratio
                               ? fmt::format(": {} {}", percent(set.overhead_ratio->value),
                                             interval(*set.overhead_ratio))
                               : "";
  words.push_back(
      fmt::format("enough for equal bits here, in {} runs: {}{}", set.runs, knobs, cost));
  return words;
}

}  // namespace dettax
