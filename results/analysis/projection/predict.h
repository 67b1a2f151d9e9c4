#pragma once

#include <string>
#include <vector>

#include "results/analysis/projection/error_summary.h"
#include "results/analysis/projection/hardware.h"
#include "results/analysis/projection/op_table.h"
#include "results/analysis/projection/training_plan.h"
#include "results/record.h"

namespace dettax {

// One layout that was run: the fast arm of a record.
struct MeasuredLayout {
  std::string name;  // of the case
  TrainingPlan plan;
  int threads = 1;    // of a rank
  int64_t cores = 0;  // of the machine that all ranks share; 0: each rank has a device of its own
  Estimate step_seconds;
  double other_load_ratio =
      0;  // CPU time of other processes meanwhile, at worst of a block that counts
  bool calibration = false;  // the machine's efficiencies are fitted to it: never judged
};

// Why a record has no step time to predict; empty if it has.
std::string layout_refusal(const Record& record);
// On a CPU nothing hides behind anything: what moves data is the core that would compute meanwhile.
MeasuredLayout measured_layout(const Record& record);

struct PredictedLayout {
  MeasuredLayout measured;
  double predicted_seconds = 0;
  double error_ratio() const { return predicted_seconds / measured.step_seconds.value - 1; }
};
struct LayoutPrediction {
  std::vector<PredictedLayout> calibration, judged;
  Efficiency efficiency;  // as fitted
  ErrorSummary errors;    // of the judged ones
};

// A simulated step of the layout. Ranks that have to share cores take at least their common work over the cores.
double layout_seconds(const Hardware& machine, const MeasuredLayout& layout,
                      const OpTable* table = nullptr);

// Fits the machine's efficiencies to the layouts marked so, on their mean squared log error, and predicts all others. Judged layouts take
// no part in the fit. Throws Error{config} if there are fewer than two of the one or none of the other.
LayoutPrediction predict_layouts(const Hardware& machine,
                                 const std::vector<MeasuredLayout>& layouts,
                                 const OpTable* table = nullptr);

// What was fitted, with its value.
std::vector<std::pair<std::string, double>> fitted_values(const LayoutPrediction& prediction);

// Of these, what stands at a bound of its range: the layouts did not say what it is.
std::vector<std::string> fitted_at_bounds(const LayoutPrediction& prediction);

std::string prediction_json(const Hardware& machine, const LayoutPrediction& prediction);

}  // namespace dettax
