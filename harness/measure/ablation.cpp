#include "harness/measure/ablation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/quantiles.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr double kRounding = 1e-9;
constexpr size_t kRoundsForInterval = 3;

using ByRound = std::map<int, double>;

// Mean over the steps of each round of the slowest rank's time: sums of means are means of sums, which medians would not keep.
ByRound round_means(const std::vector<Block>& blocks) {
  std::map<int, std::pair<double, int64_t>> sums;
  for (const Block& block : blocks) {
    if (block.repeated || block.step_time_seconds.empty()) continue;
    auto& [sum, count] = sums[block.round];
    const size_t steps = block.step_time_seconds.front().size();
    for (size_t step = 0; step < steps; ++step) {
      double slowest = 0;
      for (const auto& rank : block.step_time_seconds) slowest = std::max(slowest, rank.at(step));
      sum += slowest;
      ++count;
    }
  }
  ByRound means;
  for (const auto& [round, total] : sums)
    means[round] = total.first / static_cast<double>(total.second);
  return means;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<Estimate> estimate(const std::vector<double>& values, double confidence) {
  if (values.size() < kRoundsForInterval) return std::nullopt;
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  const auto n = static_cast<double>(values.size());
  const double half =
      student_t_quantile(0.5 + confidence / 2, n - 1) * std::sqrt(squares / (n - 1) / n);
  return Estimate{centre, centre - half, centre + half, static_cast<int64_t>(values.size())};
}

// Step times of all runs, in the rounds that all have.
class Rounds {
 public:
  explicit Rounds(const std::vector<const std::vector<Block>*>& runs) {
    for (const auto* blocks : runs) runs_.push_back(round_means(*blocks));
    for (const auto& [round, seconds] : runs_.front()) {
      const bool everywhere =
          std::ranges::all_of(runs_, [&](const ByRound& run) { return run.contains(round); });
      if (everywhere) common_.push_back(round);
    }
  }
  size_t count() const { return common_.size(); }
  std::vector<double> of(size_t run) const {
    std::vector<double> seconds;
    for (const int round : common_) seconds.push_back(runs_[run].at(round));
    return seconds;
  }

 private:
  std::vector<ByRound> runs_;
  std::vector<int> common_;
};

std::vector<double> less(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

std::vector<double> halfway(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] = (a[i] + b[i]) / 2;
  return a;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

class Matrix {
 public:
  Matrix(const AblationRuns& mode, const std::vector<ToggledKnob>& knobs, double confidence)
      : confidence_(confidence) {
    std::set<std::string> names;
    const auto note = [&](const AblationRuns& runs) {
      for (const auto& [name, seconds] : runs.mechanism_delta_seconds) names.insert(name);
    };
    note(mode);
    for (const ToggledKnob& knob : knobs) {
      note(knob.alone);
      note(knob.without);
    }
    // "unmapped" last: it is what could not be called anything.
    for (const std::string& name : names)
      if (name != kUnmapped) mechanisms_.push_back(name);
    if (names.contains(kUnmapped)) mechanisms_.emplace_back(kUnmapped);
  }

  const std::vector<std::string>& mechanisms() const { return mechanisms_; }

  std::vector<double> cells(const AblationRuns& runs) const {
    std::vector<double> cells;
    for (const std::string& name : mechanisms_) {
      const auto found = runs.mechanism_delta_seconds.find(name);
      cells.push_back(found == runs.mechanism_delta_seconds.end() ? 0 : found->second);
    }
    return cells;
  }

  KnobCost row(const std::string& knob, const std::string& part,
               const std::vector<double>& by_round, std::vector<double> cells) const {
    KnobCost cost;
    cost.knob = knob;
    cost.part = part;
    cost.seconds = estimate(by_round, confidence_);
    cost.recording_seconds = mean(by_round) - sum(cells);
    cost.cells = std::move(cells);
    return cost;
  }

 private:
  static constexpr const char* kUnmapped = "unmapped";
  double confidence_;
  std::vector<std::string> mechanisms_;
};

bool holds_nothing(const Estimate& seconds) { return seconds.low <= 0 && seconds.high >= 0; }

std::vector<std::string> notes_of(const Ablation& ablation) {
  if (!ablation.total.seconds)
    return {"no intervals from " + format_things(ablation.rounds, "round")};
  std::vector<std::string> notes, unseen;
  for (const KnobCost& cost : ablation.knobs)
    if (cost.seconds && holds_nothing(*cost.seconds)) unseen.push_back(cost.knob);
  if (!unseen.empty())
    notes.push_back("not told from no cost at all, by their intervals: " + join(unseen, ", "));
  if (ablation.interaction.seconds && !holds_nothing(*ablation.interaction.seconds))
    notes.emplace_back(
        "three knobs and more act on each other: the row interaction is of none of them alone");
  const Estimate& total = *ablation.total.seconds;
  const double recording = ablation.total.recording_seconds;
  if (total.value - recording < total.low || total.value - recording > total.high)
    notes.push_back(fmt::format(
        "recorded steps differ by {} {} than those that were not recorded, which is outside the "
        "interval of the total",
        format_seconds(std::abs(recording)), recording > 0 ? "less" : "more"));
  return notes;
}

void require_equal(double parts, double total, double scale, const std::string& what) {
  if (std::abs(parts - total) <= kRounding * std::max(scale, 1e-9)) return;
  throw Error(
      ErrorKind::internal,
      fmt::format("the matrix of knobs does not close: {} add up to {} s, the total is {} s", what,
                  parts, total));
}

}  // namespace

Ablation ablate(const std::string& arm, const std::vector<Block>& fast, const AblationRuns& mode,
                const std::vector<ToggledKnob>& knobs, double confidence) {
  Ablation out;
  out.arm = arm;
  std::vector<const std::vector<Block>*> runs = {&fast, &mode.blocks};
  for (const ToggledKnob& knob : knobs) {
    runs.push_back(&knob.alone.blocks);
    runs.push_back(&knob.without.blocks);
  }
  const Rounds rounds(runs);
  out.rounds = static_cast<int64_t>(rounds.count());
  if (rounds.count() == 0) {
    out.refusal = "no round was measured with every setting of the knobs";
    return out;
  }
  const Matrix matrix(mode, knobs, confidence);
  out.mechanisms = matrix.mechanisms();
  const std::vector<double> none = rounds.of(0), all = rounds.of(1);
  const std::vector<double> all_cells = matrix.cells(mode);
  out.total = matrix.row("total", "", less(all, none), all_cells);
  std::vector<double> left = less(all, none), left_cells = all_cells;
  for (size_t i = 0; i < knobs.size(); ++i) {
    const std::vector<double> first_in = less(rounds.of(2 + 2 * i), none);
    const std::vector<double> last_in = less(all, rounds.of(3 + 2 * i));
    const std::vector<double> cost = halfway(first_in, last_in);
    const std::vector<double> cells =
        halfway(matrix.cells(knobs[i].alone), less(all_cells, matrix.cells(knobs[i].without)));
    KnobCost row = matrix.row(knobs[i].knob, knobs[i].part, cost, cells);
    row.first_in_seconds = mean(first_in);
    row.last_in_seconds = mean(last_in);
    out.knobs.push_back(std::move(row));
    left = less(left, cost);
    left_cells = less(left_cells, cells);
  }
  out.interaction = matrix.row("interaction", "", left, left_cells);
  std::ranges::stable_sort(out.knobs, [](const KnobCost& a, const KnobCost& b) {
    return std::abs(total_seconds(a)) > std::abs(total_seconds(b));
  });
  check_closes(out);
  out.notes = notes_of(out);
  return out;
}

void check_closes(const Ablation& ablation) {
  double scale = std::abs(total_seconds(ablation.total));
  for (const KnobCost& row : ablation.knobs) {
    scale = std::max(scale, std::abs(total_seconds(row)));
    for (const double cell : row.cells) scale = std::max(scale, std::abs(cell));
  }
  std::vector<const KnobCost*> rows = {&ablation.interaction};
  for (const KnobCost& row : ablation.knobs) rows.push_back(&row);
  double seconds = 0, recording = 0;
  std::vector<double> columns(ablation.mechanisms.size());
  for (const KnobCost* row : rows) {
    seconds += total_seconds(*row);
    recording += row->recording_seconds;
    for (size_t i = 0; i < columns.size(); ++i) columns[i] += row->cells.at(i);
    if (row->seconds)
      require_equal(total_seconds(*row), row->seconds->value, scale, "the cells of " + row->knob);
  }
  for (size_t i = 0; i < columns.size(); ++i)
    require_equal(columns[i], ablation.total.cells.at(i), scale,
                  "the knobs' " + ablation.mechanisms[i]);
  require_equal(recording, ablation.total.recording_seconds, scale, "the changes by recording");
  require_equal(seconds, total_seconds(ablation.total), scale, "the knobs");
}

}  // namespace dettax
