#include <nlohmann/json.hpp>

#include "results/analysis/projection/predict.h"
#include "results/analysis/projection/projection_json.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

Json rows_json(const std::vector<PredictedLayout>& rows) {
  Json list = Json::array();
  for (const PredictedLayout& row : rows) {
    const Estimate& measured = row.measured.step_seconds;
    list.push_back({{"case", row.measured.name},
                    {"layout", plan_layout_text(row.measured.plan)},
                    {"ranks", row.measured.plan.ranks()},
                    {"measured_seconds", measured.value},
                    {"measured_low_seconds", measured.low},
                    {"measured_high_seconds", measured.high},
                    {"other_load_ratio", row.measured.other_load_ratio},
                    {"predicted_seconds", row.predicted_seconds},
                    {"error_ratio", row.error_ratio()}});
  }
  return list;
}

}  // namespace

std::string prediction_json(const Hardware& machine, const LayoutPrediction& prediction) {
  Json root = {{"schema_version", 1},
               {"kind", "prediction"},
               {"tool_version", DETTAX_VERSION},
               {"cluster", machine.name},
               {"mean_absolute_error_ratio", prediction.errors.mean_absolute},
               {"median_absolute_error_ratio", prediction.errors.median_absolute},
               {"bias_ratio", prediction.errors.bias},
               {"worst", prediction.judged[prediction.errors.worst].measured.name}};
  for (const auto& [key, value] : fitted_values(prediction)) root["fitted"][key] = value;
  root["fitted_at_bounds"] = fitted_at_bounds(prediction);
  root["calibration"] = rows_json(prediction.calibration);
  root["judged"] = rows_json(prediction.judged);
  return root.dump(2) + "\n";
}

}  // namespace dettax
