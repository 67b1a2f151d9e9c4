#include "profiles/attribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "profiles/arrivals.h"
#include "profiles/partition.h"
#include "profiles/row_table.h"
#include "profiles/steps.h"
#include "profiles/summary.h"
#include "profiles/welch.h"

namespace dettax {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr std::array<const char*, kArmCount> kArmNames{"fast", "deterministic"};

struct ArmInput {
  const std::vector<Trace>& traces;
  ProfiledArm told;
  ArmPartition partition;
};

std::string ranks_text(const std::vector<Trace>& traces) {
  std::vector<std::string> ranks;
  for (const Trace& trace : traces) ranks.push_back(trace.rank ? std::to_string(*trace.rank) : "?");
  return join(ranks, ", ");
}

void refuse_other_ranks(const std::vector<Trace>& fast, const std::vector<Trace>& deterministic) {
  if (fast.empty() || deterministic.empty())
    throw Error(ErrorKind::usage, "an arm without a trace cannot be attributed");
  const auto ranks = [](const std::vector<Trace>& traces) {
    std::vector<std::optional<int>> list;
    for (const Trace& trace : traces) list.push_back(trace.rank);
    return list;
  };
  // Two single files that do not both tell their rank are taken to be of one.
  const bool single =
      fast.size() == 1 && deterministic.size() == 1 && !(fast[0].rank && deterministic[0].rank);
  if (ranks(fast) == ranks(deterministic) || single) return;
  throw Error(ErrorKind::usage, "the fast traces are of rank " + ranks_text(fast) +
                                    ", the deterministic ones of rank " +
                                    ranks_text(deterministic) + "; both must be of the same ranks");
}

// "steps 0, 1 are left out: ..."
void note_left_out(const Trace& trace, const std::vector<StepWindow>& windows,
                   std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const StepWindow& window : windows) {
    if (!window.incomplete.empty())
      by_reason[window.incomplete].push_back(std::to_string(window.index));
  }
  for (const auto& [reason, steps] : by_reason)
    notes.push_back(trace.source + ": left out: " + (steps.size() == 1 ? "step " : "steps ") +
                    join(steps, ", ") + ", as " + reason);
}

ArmInput take_in(const std::vector<Trace>& traces, std::vector<std::string>& notes) {
  ArmInput arm{traces, {}, {}};
  std::vector<TraceSummary> summaries;
  for (const Trace& trace : traces) {
    const TraceSummary summary = summarize(trace);
    refuse_if_unusable(trace, summary);
    arm.told.launches += summary.launches;
    arm.told.launches_answered += summary.answered;
    for (std::string& note : notes_of(trace, summary)) notes.push_back(std::move(note));
  }
  const std::vector<LastArrivals> arrivals = last_arrivals(traces, notes);
  std::vector<std::vector<StepPartition>> ranks;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    const std::vector<StepWindow> windows = step_windows(traces[rank]);
    note_left_out(traces[rank], windows, notes);
    if (traces[rank].steps.empty())
      notes.push_back(traces[rank].source + ": marks no steps; the whole capture counts as one");
    ranks.push_back(partition(traces[rank], windows, arrivals[rank]));
  }
  arm.partition = common_steps(std::move(ranks));
  arm.told.ranks = static_cast<int64_t>(traces.size());
  arm.told.steps = arm.partition.step_count();
  if (arm.told.steps == 0)
    throw Error(ErrorKind::infrastructure,
                traces.front().source +
                    ": no step is complete on every rank; nothing can be attributed" +
                    (notes.empty() ? "" : " (" + notes.back() + ")"));
  return arm;
}

// Sums in nanoseconds over the ranks of each step, and what becomes of them.
class Means {
 public:
  Means(const ArmInput& fast, const ArmInput& deterministic, double confidence)
      : arms_{&fast, &deterministic}, confidence_(confidence) {}

  int64_t pieces(Arm arm) const { return told(arm).ranks * told(arm).steps; }

  AttributedTime time(const std::vector<int64_t>& fast_ns,
                      const std::vector<int64_t>& deterministic_ns) const {
    const std::vector<double> fast = by_step(Arm::fast, fast_ns),
                              deterministic = by_step(Arm::deterministic, deterministic_ns);
    AttributedTime time;
    time.fast_seconds = mean(Arm::fast, sum(fast_ns));
    time.deterministic_seconds = mean(Arm::deterministic, sum(deterministic_ns));
    time.delta_seconds = delta_seconds(sum(fast_ns), sum(deterministic_ns));
    time.delta = difference_of_means(fast, deterministic, confidence_);
    return time;
  }
  double mean(Arm arm, int64_t sum_ns) const {
    return static_cast<double>(sum_ns) / static_cast<double>(pieces(arm)) * kSecondsPerNs;
  }
  double per_piece(Arm arm, int64_t count) const {
    return static_cast<double>(count) / static_cast<double>(pieces(arm));
  }
  static int64_t sum(const std::vector<int64_t>& values) {
    int64_t total = 0;
    for (const int64_t value : values) total += value;
    return total;
  }

 private:
  const ProfiledArm& told(Arm arm) const { return arms_[static_cast<size_t>(arm)]->told; }

  double delta_seconds(int64_t fast_ns, int64_t deterministic_ns) const {
    return mean(Arm::deterministic, deterministic_ns) - mean(Arm::fast, fast_ns);
  }
  std::vector<double> by_step(Arm arm, const std::vector<int64_t>& ns) const {
    std::vector<double> seconds(static_cast<size_t>(told(arm).steps));
    for (size_t i = 0; i < ns.size(); ++i)
      seconds[i] =
          static_cast<double>(ns[i]) / static_cast<double>(told(arm).ranks) * kSecondsPerNs;
    return seconds;
  }

  const ArmInput* arms_[kArmCount];
  double confidence_;
};

void accumulate(std::vector<int64_t>& into, const std::vector<int64_t>& values) {
  if (into.size() < values.size()) into.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) into[i] += values[i];
}

bool is_idle(Mechanism mechanism) { return mechanism >= Mechanism::idle_host; }

template <typename Row>
void largest_first(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::abs(a.time.delta_seconds) > std::abs(b.time.delta_seconds);
  });
}

// What stands under one path and ordinal, over all mechanisms.
struct KeyWork {
  int64_t count[kArmCount] = {};
  std::string longest[kArmCount];
  int64_t longest_ns[kArmCount] = {};
};

class Builder {
 public:
  Builder(const RowTable& table, const Means& means) : table_(table), means_(means) {
    for (const auto& [key, row] : table.rows()) {
      KeyWork& work = works_[{std::get<0>(key), std::get<1>(key)}];
      for (int arm = 0; arm < kArmCount; ++arm) {
        const RowTable::ArmSums& sums = row.arms[arm];
        work.count[arm] += sums.count;
        if (sums.longest_ns <= work.longest_ns[arm]) continue;
        work.longest_ns[arm] = sums.longest_ns;
        work.longest[arm] = sums.longest_work;
      }
    }
  }

  std::vector<AttributionRow> rows(double step_delta_seconds) const {
    std::vector<AttributionRow> rows;
    for (const auto& [key, row] : table_.rows())
      rows.push_back(row_of(key, row, step_delta_seconds));
    largest_first(rows);
    return rows;
  }

  std::vector<MechanismRow> mechanisms() const {
    std::vector<MechanismRow> rows;
    for (int m = 0; m < kMechanismCount; ++m) {
      const auto mechanism = static_cast<Mechanism>(m);
      const Sums sums = sum_where([&](const RowTable::Key& key) {
        return std::get<2>(key) == mechanism && !is_unmapped(key);
      });
      if (!sums.any) continue;
      rows.push_back({mechanism, means_.time(sums.ns[0], sums.ns[1]),
                      means_.per_piece(Arm::fast, sums.count[0]),
                      means_.per_piece(Arm::deterministic, sums.count[1])});
    }
    largest_first(rows);
    return rows;
  }

  AttributedTime unmapped() const {
    const Sums sums = sum_where(is_unmapped);
    return means_.time(sums.ns[0], sums.ns[1]);
  }

 private:
  struct Sums {
    std::vector<int64_t> ns[kArmCount];
    int64_t count[kArmCount] = {};
    bool any = false;
  };

  // Idle time before work without a key has its cause all the same.
  static bool is_unmapped(const RowTable::Key& key) {
    return std::get<0>(key).empty() && !is_idle(std::get<2>(key));
  }

  template <typename Wanted>
  Sums sum_where(const Wanted& wanted) const {
    Sums sums;
    for (const auto& [key, row] : table_.rows()) {
      if (!wanted(key)) continue;
      sums.any = true;
      for (int arm = 0; arm < kArmCount; ++arm) {
        accumulate(sums.ns[arm], row.arms[arm].owned_ns);
        sums.count[arm] += row.arms[arm].count;
      }
    }
    return sums;
  }

  AttributionRow row_of(const RowTable::Key& key, const RowTable::Row& row,
                        double step_delta_seconds) const {
    const auto& [path, ordinal, mechanism] = key;
    const RowTable::ArmSums &fast = row.arms[0], &deterministic = row.arms[1];
    AttributionRow out;
    out.path = path;
    if (ordinal >= 0) out.ordinal = ordinal;
    out.mechanism = mechanism;
    out.time = means_.time(fast.owned_ns, deterministic.owned_ns);
    if (step_delta_seconds != 0) out.share_of_delta = out.time.delta_seconds / step_delta_seconds;
    out.fast_busy_seconds = means_.mean(Arm::fast, fast.busy_ns);
    out.deterministic_busy_seconds = means_.mean(Arm::deterministic, deterministic.busy_ns);
    if (!is_idle(mechanism))
      out.hidden_delta_seconds =
          out.deterministic_busy_seconds - out.fast_busy_seconds - out.time.delta_seconds;
    out.fast_count = means_.per_piece(Arm::fast, fast.count);
    out.deterministic_count = means_.per_piece(Arm::deterministic, deterministic.count);
    const KeyWork& work = works_.at({path, ordinal});
    if (work.count[0] > 0 && work.count[1] == 0) out.match = KeyMatch::fast_only;
    if (work.count[0] == 0 && work.count[1] > 0) out.match = KeyMatch::deterministic_only;
    out.fast_work = work.longest[0];
    out.deterministic_work = work.longest[1];
    return out;
  }

  const RowTable& table_;
  const Means& means_;
  std::map<std::pair<std::string_view, int64_t>, KeyWork> works_;
};

void refuse_if_unmapped(const ProfiledArm& arm, const char* name, double limit) {
  if (arm.unmapped_ratio <= limit) return;
  throw Error(ErrorKind::infrastructure,
              std::string("in the ") + name + " arm " + format_percent(arm.unmapped_ratio) +
                  " of the step time is work without a range around its launch, more than " +
                  format_percent(limit) + "; record operators and annotations with it");
}

void advise(Attribution& attribution) {
  for (const MechanismRow& row : attribution.mechanisms) {
    const double certain = row.time.delta ? row.time.delta->low : row.time.delta_seconds;
    if (row.mechanism != Mechanism::memory_fill || certain <= 0) continue;
    attribution.advice.push_back("filling of memory costs " +
                                 format_seconds(row.time.delta_seconds) +
                                 " a step: the knob memory_fill turns it off (PyTorch: " +
                                 "torch.utils.deterministic.fill_uninitialized_memory = False); it "
                                 "touches no order of summation");
  }
}

}  // namespace

Attribution attribute(const std::vector<Trace>& fast, const std::vector<Trace>& deterministic,
                      const AttributionOptions& options) {
  refuse_other_ranks(fast, deterministic);
  Attribution result;
  ArmInput arms[kArmCount] = {take_in(fast, result.notes), take_in(deterministic, result.notes)};
  RowTable table(options.by_ordinal);
  for (const Arm arm : {Arm::fast, Arm::deterministic}) {
    const ArmInput& input = arms[static_cast<size_t>(arm)];
    table.add(arm, input.partition, input.traces);
  }
  table.check();

  const Means means(arms[0], arms[1], options.confidence);
  result.step = means.time(table.step_ns(Arm::fast), table.step_ns(Arm::deterministic));
  const Builder builder(table, means);
  result.rows = builder.rows(result.step.delta_seconds);
  result.mechanisms = builder.mechanisms();
  result.unmapped = builder.unmapped();
  arms[0].told.step_seconds = result.step.fast_seconds;
  arms[1].told.step_seconds = result.step.deterministic_seconds;
  arms[0].told.unmapped_ratio = result.unmapped.fast_seconds / result.step.fast_seconds;
  arms[1].told.unmapped_ratio =
      result.unmapped.deterministic_seconds / result.step.deterministic_seconds;
  for (int arm = 0; arm < kArmCount; ++arm)
    refuse_if_unmapped(arms[arm].told, kArmNames[static_cast<size_t>(arm)],
                       options.unmapped_ratio_max);
  result.fast = arms[0].told;
  result.deterministic = arms[1].told;
  if (options.unprofiled)
    result.distortion_seconds = options.unprofiled->deterministic_seconds -
                                options.unprofiled->fast_seconds - result.step.delta_seconds;
  advise(result);
  return result;
}

}  // namespace dettax
