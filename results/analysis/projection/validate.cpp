#include "results/analysis/projection/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "results/analysis/projection/fit.h"
#include "results/analysis/projection/simulate.h"

namespace dettax {
namespace {

constexpr int kSamples = 2;

// Machines by name, read once.
class Machines {
 public:
  explicit Machines(const Calibration& calibration) : calibration_(calibration) {}
  const Hardware& named(const std::string& name) {
    auto found = machines_.find(name);
    if (found == machines_.end()) {
      found = machines_.emplace(name, load_hardware(name)).first;
      apply_calibration(calibration_, found->second);
    }
    return found->second;
  }
  void recalibrate(const Calibration& calibration) {
    for (auto& [name, machine] : machines_) apply_calibration(calibration, machine);
  }

 private:
  Calibration calibration_;
  std::map<std::string, Hardware> machines_;
};

double project(Machines& machines, const PublishedRow& row) {
  const DeterminismCost fast;
  const Situation situation{machines.named(row.machine), row.plan, fast};
  return simulate(situation, StepJitter{}, kSamples).step_seconds;
}

GroupError summary(const std::string& name, const std::vector<const Judged*>& judged) {
  GroupError error;
  error.group = name;
  error.rows = static_cast<int>(judged.size());
  std::vector<double> ratios;
  for (const Judged* one : judged) ratios.push_back(one->error_ratio());
  error.errors = summarise(ratios);
  if (!judged.empty()) error.worst = *judged[error.errors.worst];
  return error;
}

}  // namespace

int Validation::within_limit() const {
  return static_cast<int>(
      std::ranges::count_if(groups, [](const GroupError& g) { return g.within_limit(); }));
}

Validation validate(const std::vector<PublishedRow>& rows, const Calibration& calibration) {
  Machines machines(calibration);
  Validation result;
  std::set<std::string> fitted;
  for (const PublishedRow& row : rows) {
    if (!row.left_out.empty()) {
      result.left_out.push_back(row);
      continue;
    }
    const Judged judged{row, project(machines, row)};
    (row.calibration ? result.calibration : result.judged).push_back(judged);
    if (row.calibration) fitted.insert(row.system);
  }
  std::vector<std::string> names;
  std::map<std::string, std::vector<const Judged*>> by_group;
  std::vector<const Judged*> of_fitted, of_foreign;
  for (const Judged& judged : result.judged) {
    if (!by_group.contains(judged.row.group)) names.push_back(judged.row.group);
    by_group[judged.row.group].push_back(&judged);
    (fitted.contains(judged.row.system) ? of_fitted : of_foreign).push_back(&judged);
  }
  for (const std::string& name : names) {
    result.groups.push_back(summary(name, by_group[name]));
    result.groups.back().system_fitted = fitted.contains(by_group[name].front()->row.system);
  }
  result.fitted = summary("systems that took part in the fit", of_fitted);
  result.fitted.system_fitted = true;
  result.foreign = summary("systems that took no part", of_foreign);
  return result;
}

namespace {

// One number to fit: a key of one family, or of all that have it; on rows without experts, or on those with them once the rest is known.
struct Parameter {
  const char* generation;  // empty: hopper and blackwell
  const char* key;
  double low, high;
  bool experts;
};
constexpr Parameter kParameters[] = {{"ampere", "gemm_ratio", 0.4, 0.9, false},
                                     {"hopper", "gemm_ratio", 0.4, 0.85, false},
                                     {"blackwell", "gemm_ratio", 0.4, 0.85, false},
                                     {"hopper", "fp8_gemm_ratio", 0.3, 0.8, false},
                                     {"blackwell", "fp8_gemm_ratio", 0.3, 0.8, false},
                                     {"ampere", "memory_passes_ratio", 0.5, 3, false},
                                     {"", "memory_passes_ratio", 0.5, 3, false},
                                     {"ampere", "launch_seconds", 2e-6, 50e-6, false},
                                     {"ampere", "gemm_half_seconds", 1e-6, 80e-6, false},
                                     {"", "gemm_half_seconds", 1e-6, 20e-6, false},
                                     {"", "kernel_seconds", 1e-6, 6e-6, false},
                                     {"hopper", "rank_cv", 1e-3, 0.03, false},
                                     {"blackwell", "fp4_gemm_ratio", 0.15, 0.8, false},
                                     {"", "tensor_overlap_ratio", 0.05, 1, false},
                                     {"", "step_seconds", 1e-3, 0.05, false},
                                     {"", "launch_seconds", 2e-6, 50e-6, true},
                                     {"hopper", "expert_ratio", 0.1, 1, true},
                                     {"blackwell", "expert_ratio", 0.1, 1, true},
                                     {"hopper", "all_to_all_ratio", 0.1, 1, true},
                                     {"blackwell", "all_to_all_ratio", 0.1, 1, true}};

void set(Calibration& calibration, const Parameter& p, double value) {
  const double kept = std::clamp(value, p.low, p.high);
  if (*p.generation != '\0') {
    calibration[p.generation][p.key] = kept;
    return;
  }
  for (const char* generation : {"hopper", "blackwell"}) calibration[generation][p.key] = kept;
}

double get(const Calibration& calibration, const Parameter& p) {
  const auto& part = calibration.at(*p.generation == '\0' ? "hopper" : p.generation);
  const auto found = part.find(p.key);
  return found == part.end() ? std::sqrt(p.low * p.high) : found->second;
}

class Fitting {
 public:
  Fitting(const std::vector<PublishedRow>& rows, const Calibration& start) : machines_(start) {
    for (const PublishedRow& row : rows) {
      if (row.calibration && row.left_out.empty()) rows_.push_back(&row);
    }
    fit_.calibration = start;
    for (const Parameter& p : kParameters) set(fit_.calibration, p, get(fit_.calibration, p));
  }

  Fit run() {
    search(false);
    search(true);
    machines_.recalibrate(fit_.calibration);
    double sum = 0;
    for (const PublishedRow* row : rows_) sum += std::abs(ratio(*row) - 1);
    fit_.mean_absolute = sum / static_cast<double>(rows_.size());
    return fit_;
  }

 private:
  double ratio(const PublishedRow& row) {
    ++fit_.projections;
    return project(machines_, row) / row.step_seconds;
  }

  double objective(const Calibration& calibration, bool experts) {
    machines_.recalibrate(calibration);
    double sum = 0;
    for (const PublishedRow* row : rows_) {
      if (row->plan.model.moe.has_value() != experts) continue;
      const double error = std::log(ratio(*row));
      sum += error * error;
    }
    return sum;
  }

  void search(bool experts) {
    std::vector<const Parameter*> parameters;
    std::vector<double> start;
    std::vector<FitRange> ranges;
    for (const Parameter& p : kParameters) {
      if (p.experts != experts) continue;
      parameters.push_back(&p);
      start.push_back(get(fit_.calibration, p));
      ranges.push_back({p.low, p.high});
    }
    const auto with = [&](const std::vector<double>& values) {
      Calibration changed = fit_.calibration;
      for (size_t i = 0; i < values.size(); ++i) set(changed, *parameters[i], values[i]);
      return changed;
    };
    const FitResult best = pattern_search(
        std::move(start), ranges,
        [&](const std::vector<double>& values) { return objective(with(values), experts); });
    fit_.calibration = with(best.values);
  }

  Machines machines_;
  std::vector<const PublishedRow*> rows_;
  Fit fit_;
};

}  // namespace

Fit fit_calibration(const std::vector<PublishedRow>& rows, const Calibration& start) {
  return Fitting(rows, start).run();
}

}  // namespace dettax
