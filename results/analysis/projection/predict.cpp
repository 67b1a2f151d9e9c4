#include "results/analysis/projection/predict.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "results/analysis/projection/fit.h"
#include "results/analysis/projection/simulate.h"

namespace dettax {
namespace {

struct FittedKey {
  const char* name;
  double Efficiency::* value;
  FitRange range;
};
// Few, and each seen by other layouts: products by long and wide models, passes and launches by small ones, host and collectives by ranks.
constexpr FittedKey kFitted[] = {
    {"gemm_ratio", &Efficiency::gemm_ratio, {0.02, 1.2}},
    {"memory_passes_ratio", &Efficiency::memory_passes_ratio, {0.1, 10}},
    {"kernel_seconds", &Efficiency::kernel_seconds, {1e-7, 1e-3}},
    {"step_seconds", &Efficiency::step_seconds, {1e-6, 1}},
    {"link_ratio", &Efficiency::link_ratio, {0.01, 5}},
    {"collective_seconds", &Efficiency::collective_seconds, {1e-7, 1e-2}}};

ScheduleKind schedule_of(const Layout& layout) {
  if (layout.vp > 1) return ScheduleKind::interleaved;
  return layout.schedule == PipelineSchedule::gpipe ? ScheduleKind::gpipe
                                                    : ScheduleKind::one_f_one_b;
}

Hardware with_values(const Hardware& machine, const std::vector<double>& values) {
  Hardware changed = machine;
  for (size_t i = 0; i < values.size(); ++i) changed.efficiency.*kFitted[i].value = values[i];
  return changed;
}

std::vector<double> fit(const Hardware& machine, const std::vector<const MeasuredLayout*>& rows,
                        const OpTable* table) {
  std::vector<double> start;
  std::vector<FitRange> ranges;
  for (const FittedKey& key : kFitted) {
    start.push_back(machine.efficiency.*key.value);
    ranges.push_back(key.range);
  }
  return pattern_search(std::move(start), ranges,
                        [&](const std::vector<double>& values) {
                          const Hardware changed = with_values(machine, values);
                          double sum = 0;
                          for (const MeasuredLayout* row : rows) {
                            const double error = std::log(layout_seconds(changed, *row, table) /
                                                          row->step_seconds.value);
                            sum += error * error;
                          }
                          return sum;
                        })
      .values;
}

}  // namespace

std::string layout_refusal(const Record& record) {
  const ArmResult* fast = find_arm(record, "fast");
  if (!record.precision_note.empty()) return "its precision is emulated";
  if (record.planned.topology.emulates_links()) return "its links are emulated";
  if (!record.planned.injections.empty()) return "faults were put in";
  if (fast == nullptr || !fast->failure_code.empty() || !fast->step_time_seconds ||
      !(fast->step_time_seconds->value > 0))
    return "its fast arm has no step time";
  return "";
}

MeasuredLayout measured_layout(const Record& record) {
  const Case& planned = record.planned;
  MeasuredLayout layout;
  layout.name = record.case_id;
  layout.threads = planned.topology.threads_per_rank;
  layout.step_seconds = *find_arm(record, "fast")->step_time_seconds;
  for (const Block& block : find_arm(record, "fast")->blocks) {
    if (!block.repeated)
      layout.other_load_ratio = std::max(layout.other_load_ratio, block.other_load_ratio);
  }
  TrainingPlan& plan = layout.plan;
  plan.model = planned.model;
  plan.layout = planned.layout;
  plan.schedule = schedule_of(planned.layout);
  plan.precision = planned.precision;
  plan.batch = planned.batch;
  plan.software.parameter_bytes = element_bytes(plan.precision);
  if (planned.backend == Backend::cpu) {
    layout.cores = record.environment.cores;
    Software& software = plan.software;
    software.tensor_overlap = software.bulk_overlap = software.context_overlap = false;
    software.data_overlap = software.send_overlap = false;
  }
  return layout;
}

double layout_seconds(const Hardware& machine, const MeasuredLayout& layout, const OpTable* table) {
  const DeterminismCost fast;
  const Projection step = simulate(Situation{machine, layout.plan, fast, table});
  if (layout.cores == 0) return step.step_seconds;
  const double together = std::max(
      1.0, std::floor(static_cast<double>(layout.cores) / static_cast<double>(layout.threads)));
  const auto ranks = static_cast<double>(layout.plan.ranks());
  // Waiting takes no core: neither the bubble nor what the busiest stage does beyond the others.
  const double busy = step.step_seconds - step.bubble - (step.compute - step.mean_stage_compute);
  return std::max(step.step_seconds, busy * ranks / together);
}

LayoutPrediction predict_layouts(const Hardware& machine,
                                 const std::vector<MeasuredLayout>& layouts, const OpTable* table) {
  std::vector<const MeasuredLayout*> calibration;
  for (const MeasuredLayout& layout : layouts) {
    if (layout.calibration) calibration.push_back(&layout);
  }
  if (calibration.size() < 2 || calibration.size() == layouts.size()) {
    throw Error(ErrorKind::config,
                fmt::format("{} of {} layouts are to calibrate on: at least two are needed, and "
                            "one that is predicted",
                            calibration.size(), layouts.size()));
  }
  const Hardware fitted = with_values(machine, fit(machine, calibration, table));
  LayoutPrediction prediction;
  prediction.efficiency = fitted.efficiency;
  for (const MeasuredLayout& layout : layouts) {
    auto& rows = layout.calibration ? prediction.calibration : prediction.judged;
    rows.push_back({layout, layout_seconds(fitted, layout, table)});
  }
  std::vector<double> ratios;
  for (const PredictedLayout& row : prediction.judged) ratios.push_back(row.error_ratio());
  prediction.errors = summarise(ratios);
  return prediction;
}

std::vector<std::pair<std::string, double>> fitted_values(const LayoutPrediction& prediction) {
  std::vector<std::pair<std::string, double>> values;
  for (const FittedKey& key : kFitted)
    values.emplace_back(key.name, prediction.efficiency.*key.value);
  return values;
}

std::vector<std::string> fitted_at_bounds(const LayoutPrediction& prediction) {
  std::vector<std::string> names;
  for (const FittedKey& key : kFitted) {
    const double value = prediction.efficiency.*key.value;
    if (value <= key.range.low || value >= key.range.high) names.emplace_back(key.name);
  }
  return names;
}

}  // namespace dettax
