#include "harness/measure/noise.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/robust.h"
#include "harness/measure/measure.h"
#include "harness/measure/synchronisation.h"

namespace dettax {
namespace {

constexpr double kFarScatter = 5;
constexpr double kFarStepRatio = 0.05;
constexpr double kFarRoundRatio = 0.02;
// A trend smaller than this over the whole case is not worth a word.
constexpr double kSmallTrend = 0.01;

struct Point {
  double start_seconds, step_seconds;
};

std::vector<Point> counted_points(const std::vector<Block>& blocks) {
  std::vector<Point> points;
  for (const Block& block : blocks) {
    const double seconds = block_seconds(block);
    if (!block.repeated && std::isfinite(seconds)) points.push_back({block.start_seconds, seconds});
  }
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.start_seconds < b.start_seconds; });
  return points;
}

double median_seconds(const std::vector<Point>& points) {
  std::vector<double> seconds;
  for (const Point& point : points) seconds.push_back(point.step_seconds);
  return median(std::move(seconds));
}

// Every step of the arm's counted blocks that has a time of its own, slowest rank, with where it
// stands.
std::vector<OutlyingStep> all_steps(const std::vector<Block>& blocks) {
  std::vector<OutlyingStep> steps;
  for (const Block& block : blocks) {
    if (block.repeated || block.step_time_seconds.empty()) continue;
    if (!synchronisation(block).trusted()) continue;
    size_t count = block.step_time_seconds.front().size();
    for (const auto& rank : block.step_time_seconds) count = std::min(count, rank.size());
    for (size_t step = 0; step < count; ++step) {
      double slowest = 0;
      for (const auto& rank : block.step_time_seconds) slowest = std::max(slowest, rank[step]);
      steps.push_back({block.round, block.position, static_cast<int>(step), slowest, 1});
    }
  }
  return steps;
}

void add_trend(const std::string& name, const std::vector<Block>& blocks,
               std::vector<std::string>& out) {
  const Trend found = trend(blocks);
  if (!found.clear || std::abs(found.ratio_over_case) < kSmallTrend) return;
  out.push_back(fmt::format("drift: {}'s step time changed by {} while it was measured", name,
                            format_signed_percent(found.ratio_over_case)));
}

// Time of one arm against the other: when they alternate, the middle of both is about the same.
void add_order(const std::string& name, const std::vector<Block>& arm,
               const std::vector<Block>& fast, std::vector<std::string>& out) {
  const std::vector<Point> a = counted_points(arm), b = counted_points(fast);
  if (a.size() < 2 || b.size() < 2) return;
  if (a.front().start_seconds > b.back().start_seconds ||
      b.front().start_seconds > a.back().start_seconds) {
    out.push_back("order: fast and " + name +
                  " ran one after the other, so that a drift of the machine is in the ratio");
  }
}

void add_outliers(const std::string& name, const std::vector<Block>& arm,
                  const std::vector<Block>& fast, std::vector<std::string>& out) {
  for (const OutlyingRound& round : outlying_rounds(arm, fast)) {
    out.push_back(fmt::format(
        "noise: round {} has a ratio of {:.3f} against {:.3f} elsewhere; it counts in full",
        round.round, round.ratio, round.others_ratio));
  }
  for (const auto& [who, blocks] : {std::pair{std::string("fast"), &fast}, std::pair{name, &arm}}) {
    const std::vector<OutlyingStep> steps = outlying_steps(*blocks);
    if (steps.empty()) continue;
    const auto worst =
        std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
          return std::abs(std::log(a.ratio)) < std::abs(std::log(b.ratio));
        });
    out.push_back(fmt::format(
        "noise: {} of {} steps of {} are outliers, the worst {} off the median in round {}",
        steps.size(), all_steps(*blocks).size(), who, format_signed_percent(worst->ratio - 1),
        worst->round));
  }
}

void add_synchronisation(const std::string& name, const std::vector<Block>& blocks,
                         std::vector<std::string>& out) {
  Synchronisation all;
  for (const Block& block : blocks) {
    const Synchronisation one = synchronisation(block);
    all.steps += one.steps;
    all.unsynchronised += one.unsynchronised;
  }
  if (all.trusted()) return;
  out.push_back(fmt::format(
      "clock: {}'s host times a step are not synchronised with the device (its work exceeds the "
      "host's time in {} of {} steps); whole blocks count, single steps do not",
      name, all.unsynchronised, all.steps));
}

struct Disturbance {
  std::set<int> repeated, kept;                  // rounds
  double steal_ratio = 0, other_load_ratio = 0;  // the largest
};

Disturbance disturbance(const std::vector<Block>& arm, const std::vector<Block>& fast) {
  Disturbance all;
  for (const std::vector<Block>* blocks : {&arm, &fast}) {
    for (const Block& block : *blocks) {
      if (block.repeated) all.repeated.insert(block.round);
      if (!block.repeated && disturbed(block)) all.kept.insert(block.round);
      all.steal_ratio = std::max(all.steal_ratio, block.steal_ratio);
      all.other_load_ratio = std::max(all.other_load_ratio, block.other_load_ratio);
    }
  }
  return all;
}

void add_guards(const std::vector<Block>& arm, const std::vector<Block>& fast,
                std::vector<std::string>& out) {
  const auto [repeated, kept, steal, load] = disturbance(arm, fast);
  if (repeated.empty() && kept.empty()) return;
  if (!repeated.empty())
    out.push_back(fmt::format("load: {} disturbed round{} repeated", repeated.size(),
                              repeated.size() == 1 ? " was" : "s were"));
  if (!kept.empty())
    out.push_back(fmt::format("load: {} disturbed round{} in the interval", kept.size(),
                              kept.size() == 1 ? " is" : "s are"));
  out.push_back(fmt::format(
      "load: at worst {} of the CPU time went to other processes and {} to other machines",
      format_percent(load), format_percent(steal)));
}

}  // namespace

bool disturbed(const Block& block) {
  return block.steal_ratio > kStealLimit || block.other_load_ratio > kOtherLoadLimit;
}

Trend trend(const std::vector<Block>& blocks) {
  const std::vector<Point> points = counted_points(blocks);
  std::vector<double> slopes;
  int64_t rising = 0;  // Mann-Kendall's S
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const double apart = points[j].start_seconds - points[i].start_seconds;
      const double change = points[j].step_seconds - points[i].step_seconds;
      if (!(apart > 0)) continue;
      slopes.push_back(change / apart);
      rising += (change > 0) - (change < 0);
    }
  }
  if (slopes.empty()) return {};
  Trend found;
  found.ratio_per_second = median(std::move(slopes)) / median_seconds(points);
  found.ratio_over_case =
      found.ratio_per_second * (points.back().start_seconds - points.front().start_seconds);
  constexpr double kNormalQuantile = 2.576;  // 99.5 %
  const double n = static_cast<double>(points.size());
  const double deviation = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  found.clear = std::abs(static_cast<double>(rising)) - 1 > kNormalQuantile * deviation;
  return found;
}

std::vector<OutlyingStep> outlying_steps(const std::vector<Block>& blocks) {
  std::vector<OutlyingStep> steps = all_steps(blocks);
  std::vector<double> seconds;
  for (const OutlyingStep& step : steps) seconds.push_back(step.seconds);
  const double center = median(seconds);
  const double allowed = std::max(kFarStepRatio * center, kFarScatter * scatter(seconds, center));
  std::erase_if(
      steps, [&](const OutlyingStep& step) { return std::abs(step.seconds - center) <= allowed; });
  for (OutlyingStep& step : steps) step.ratio = step.seconds / center;
  return steps;
}

std::vector<OutlyingRound> outlying_rounds(const std::vector<Block>& arm,
                                           const std::vector<Block>& fast) {
  const std::vector<RoundRatio> ratios = round_ratios(arm, fast);
  std::vector<double> logs;
  for (const RoundRatio& one : ratios) logs.push_back(one.log_ratio);
  const double center = median(logs);
  const double allowed = std::max(kFarRoundRatio, kFarScatter * scatter(logs, center));
  std::vector<OutlyingRound> found;
  for (const RoundRatio& one : ratios) {
    if (std::abs(one.log_ratio - center) > allowed)
      found.push_back({one.round, std::exp(one.log_ratio), std::exp(center)});
  }
  return found;
}

std::vector<std::string> noise_warnings(const std::string& arm_name, const std::vector<Block>& arm,
                                        const std::vector<Block>& fast) {
  std::vector<std::string> warnings;
  add_trend("fast", fast, warnings);
  add_trend(arm_name, arm, warnings);
  add_order(arm_name, arm, fast, warnings);
  add_synchronisation("fast", fast, warnings);
  add_synchronisation(arm_name, arm, warnings);
  add_outliers(arm_name, arm, fast, warnings);
  add_guards(arm, fast, warnings);
  return warnings;
}

}  // namespace dettax
