#include "results/analysis/acceptance/baseline.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/base/format.h"
#include "harness/base/quantiles.h"
#include "harness/base/text.h"
#include "results/analysis/acceptance/observe.h"
#include "results/provenance.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

struct Measured {
  std::string node, case_id, arm, quantity;
  PeerValue log;
  auto key() const { return std::tuple(case_id, arm, quantity); }
};

bool counts(const Record& record) {
  const bool is_void = record.verdict.exit_code == static_cast<int>(ExitCode::not_bit_exact);
  return !record.arms.empty() && !is_void && record.verdict.status != Status::error &&
         record.verdict.status != Status::skipped;
}

bool finite(const Estimate& e) { return e.value > 0 && e.low > 0 && std::isfinite(e.high); }

std::vector<Measured> measured(const Record& record) {
  std::vector<Measured> all;
  if (!counts(record)) return all;
  const auto add = [&](const std::string& arm, const char* quantity, PeerValue log) {
    all.push_back({node_of(record), record.case_id, arm, quantity, log});
  };
  for (const ArmResult& arm : record.arms) {
    if (arm.step_time_seconds && finite(*arm.step_time_seconds))
      add(arm.arm, "step_time_seconds", log_of(*arm.step_time_seconds));
    if (arm.memory_peak_bytes > 0)
      add(arm.arm, "memory_peak_bytes", {std::log(static_cast<double>(arm.memory_peak_bytes)), 0});
  }
  for (const Tax& tax : record.taxes) {
    if (tax.published && finite(tax.overhead_ratio))
      add(tax.arm, "overhead_ratio", log_of(tax.overhead_ratio));
  }
  return all;
}

std::map<std::string, std::string> conditions(const Record& record) {
  const auto values = provenance(record.environment);
  return {values.begin(), values.end()};
}

void add_differences(const std::map<std::string, std::string>& base,
                     const std::map<std::string, std::string>& now, std::set<std::string>& out) {
  std::set<std::string> names;
  for (const auto* side : {&base, &now}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto get = [&](const auto& side) {
      return side.contains(name) ? side.at(name) : std::string(kUnset);
    };
    if (get(base) != get(now))
      out.insert(fmt::format("{}: {} against {}", name, get(base), get(now)));
  }
}

BaselineRow row_of(const std::vector<Measured>& values) {
  BaselineRow row;
  row.case_id = values.front().case_id;
  row.arm = values.front().arm;
  row.quantity = values.front().quantity;
  row.count = static_cast<int64_t>(values.size());
  const auto count = static_cast<double>(values.size());
  for (const Measured& one : values) row.log_mean += one.log.value / count;
  double squares = 0;
  for (const Measured& one : values)
    squares += (one.log.value - row.log_mean) * (one.log.value - row.log_mean);
  row.log_spread = std::sqrt(squares / (count - 1));
  return row;
}

const char* direction(double ratio) { return ratio > 1 ? "more" : "less"; }

void judge_row(BaselineCheckRow& row, const BaselineRow& base, const Measured& now, double alarm,
               const BaselineSettings& settings) {
  const auto count = static_cast<double>(base.count);
  const double spread = base.log_spread * base.log_spread;
  const double own = now.log.standard_error * now.log.standard_error;
  const double tolerance = student_t_quantile(1 - alarm / 2, count - 1) *
                           std::sqrt(spread * (1 + 1 / count) + std::max(0.0, own - spread));
  const double change = now.log.value - base.log_mean;
  row.ratio = std::exp(change);
  row.tolerance_ratio = std::max(std::expm1(tolerance), settings.least_change_ratio);
  const std::string words = fmt::format(
      "{} {}, tolerance {} from {}", format_percent(std::abs(row.ratio - 1)), direction(row.ratio),
      format_percent(row.tolerance_ratio), format_things(base.count, "run"));
  if (std::abs(change) > std::log1p(row.tolerance_ratio)) {
    row.status = Status::fail;
    row.words = words + (row.ratio < 1 ? "; a gain is flagged, not accepted by itself" : "");
  } else if (row.tolerance_ratio > settings.most_tolerance_ratio) {
    row.status = Status::inconclusive;
    row.words = words + ": too wide to show anything; record the baseline from more runs";
  } else {
    row.status = Status::pass;
    row.words = words;
  }
}

BaselineCheckRow unjudged(const Record& record, const std::string& arm, const std::string& words) {
  BaselineCheckRow row;
  row.node = node_of(record);
  row.case_id = record.case_id;
  row.arm = arm;
  row.words = words;
  return row;
}

// Rows of the baseline that a record of their case did not measure.
void add_missing(const Baseline& baseline, const Record& record, const std::vector<Measured>& now,
                 std::vector<BaselineCheckRow>& rows) {
  for (const BaselineRow& base : baseline.rows) {
    if (base.case_id != record.case_id) continue;
    const bool there = std::ranges::any_of(
        now, [&](const Measured& m) { return m.arm == base.arm && m.quantity == base.quantity; });
    if (there) continue;
    rows.push_back(unjudged(record, base.arm, "was not measured: " + record.verdict.reason));
    rows.back().quantity = base.quantity;
  }
}

// Cases of the baseline that a node has no record of at all: nothing says that they still do what they did.
void add_not_run(const Baseline& baseline, const std::vector<Record>& records,
                 std::vector<BaselineCheckRow>& rows) {
  std::map<std::string, std::string> node_of_run;
  for (const Record& record : records) {
    if (!node_of(record).empty()) node_of_run.emplace(record.run_id, node_of(record));
  }
  std::map<std::string, std::set<std::string>> have;  // node -> cases
  for (const Record& record : records) {
    const auto known = node_of_run.find(record.run_id);
    const std::string own = node_of(record);
    if (!own.empty() || known != node_of_run.end())
      have[own.empty() ? known->second : own].insert(record.case_id);
  }
  std::set<std::string> wanted;
  for (const BaselineRow& row : baseline.rows) wanted.insert(row.case_id);
  for (const auto& [node, cases] : have) {
    for (const std::string& case_id : wanted) {
      if (cases.contains(case_id)) continue;
      BaselineCheckRow& row = rows.emplace_back();
      row.node = node;
      row.case_id = case_id;
      row.words = "was not measured: the baseline has this case, the run does not";
    }
  }
}

}  // namespace

std::string platform_of(const Environment& environment) {
  std::string key =
      fmt::format("{}-{}c-{}", environment.cpu_model, environment.cores, environment.simd_target);
  for (char& c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '-') c = '_';
  }
  return key.front() == '.' ? "_" + key : key;
}

std::string case_hash(const Record& record) {
  Record only;
  only.planned = record.planned;
  only.planned.data.path.clear();  // a text is what it holds
  std::string text = to_json(only);
  for (const ArmResult& arm : record.arms) text += arm.arm + arm.mode_hash;
  return hash_text(text);
}

Baseline make_baseline(const std::vector<Record>& records) {
  Baseline baseline;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<Measured>> groups;
  std::set<std::string> runs;
  for (const Record& record : records) {
    if (!counts(record)) continue;
    if (baseline.platform.empty()) {
      baseline.platform = platform_of(record.environment);
      baseline.provenance = conditions(record);
    }
    std::set<std::string> differences;
    add_differences(baseline.provenance, conditions(record), differences);
    const std::string hash = case_hash(record);
    if (baseline.cases.emplace(record.case_id, hash).first->second != hash)
      differences.insert(record.case_id + ": another case, or other modes, by the same name");
    if (!differences.empty())
      throw Error(ErrorKind::config,
                  fmt::format("{}: differs from the first run in {}; a baseline is of one platform",
                              record.run_id, *differences.begin()));
    for (Measured& one : measured(record)) groups[one.key()].push_back(std::move(one));
    runs.insert(record.run_id);
  }
  for (const auto& [key, values] : groups) {
    if (values.size() > 1) baseline.rows.push_back(row_of(values));
  }
  if (baseline.rows.empty())
    throw Error(ErrorKind::config,
                fmt::format("a baseline needs two runs of a case or more (three and more for a "
                            "useful tolerance), since the spread of one is unknown; found {}",
                            format_things(static_cast<int64_t>(runs.size()), "usable run")));
  baseline.runs.assign(runs.begin(), runs.end());
  return baseline;
}

BaselineCheck check_baseline(const Baseline& baseline, const std::vector<Record>& records,
                             const BaselineSettings& settings) {
  BaselineCheck check;
  std::set<std::string> differences;
  std::vector<std::pair<const Record*, Measured>> all;
  for (const Record& record : records) {
    const auto known = baseline.cases.find(record.case_id);
    if (!record.arms.empty()) add_differences(baseline.provenance, conditions(record), differences);
    if (known == baseline.cases.end()) {
      check.rows.push_back(unjudged(record, "", "the baseline lacks this case"));
      continue;
    }
    if (!record.arms.empty() && known->second != case_hash(record))
      differences.insert(record.case_id + ": another case, or other modes, by the same name");
    const std::vector<Measured> now = measured(record);
    add_missing(baseline, record, now, check.rows);
    for (const Measured& one : now) all.emplace_back(&record, one);
  }
  add_not_run(baseline, records, check.rows);
  check.provenance_differences.assign(differences.begin(), differences.end());
  if (!differences.empty() && !settings.force) {
    check.rows.clear();
    check.exit_code = static_cast<int>(ExitCode::infrastructure);
    return check;
  }
  for (const auto& [record, one] : all) {
    const auto base = std::ranges::find_if(baseline.rows, [&](const BaselineRow& row) {
      return std::tuple(row.case_id, row.arm, row.quantity) == one.key();
    });
    BaselineCheckRow row = unjudged(*record, one.arm, "the baseline has no such value");
    row.quantity = one.quantity;
    if (base != baseline.rows.end())
      judge_row(row, *base, one, settings.false_alarm_ratio / static_cast<double>(all.size()),
                settings);
    check.rows.push_back(std::move(row));
  }
  std::vector<ExitCode> codes;
  for (const BaselineCheckRow& row : check.rows) codes.push_back(exit_code_of(row.status));
  check.exit_code = static_cast<int>(codes.empty() ? ExitCode::infrastructure : combine(codes));
  return check;
}

}  // namespace dettax
