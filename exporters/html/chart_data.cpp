#include "exporters/html/chart_data.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "exporters/html/cause_data.h"
#include "exporters/html/outlook_section.h"
#include "exporters/json_writer.h"
#include "exporters/step_times.h"
#include "exporters/tax_state.h"

namespace dettax {
namespace {

constexpr int kBins = 48;
constexpr double kShown =
    0.99;  // of all steps; the slowest are counted, else they would squeeze the rest

struct ArmSteps {
  const ArmResult* arm = nullptr;
  std::vector<double> sorted;
};

std::vector<ArmSteps> steps_by_arm(const Record& record) {
  std::vector<ArmSteps> arms;
  for (const ArmResult& arm : record.arms) {
    std::vector<double> steps = step_times(arm);
    if (steps.empty()) continue;
    std::sort(steps.begin(), steps.end());
    arms.push_back({&arm, std::move(steps)});
  }
  return arms;
}

void write_forest_row(JsonWriter& json, const Record& record, const Tax* tax) {
  json.begin_object();
  json.member("id", record.case_id);
  json.member("arm", tax == nullptr ? "" : tax->arm);
  json.member("status", to_string(record.verdict.status));
  const TaxState state = tax == nullptr ? TaxState::unfinished : tax_state(record, *tax);
  const auto number = [&](const char* key, bool there, double value) {
    json.key(key);
    there ? json.number(value) : json.null();
  };
  number("value", has_value(state), tax == nullptr ? 0 : tax->overhead_ratio.value);
  number("low", has_interval(state), tax == nullptr ? 0 : tax->overhead_ratio.low);
  number("high", has_interval(state), tax == nullptr ? 0 : tax->overhead_ratio.high);
  json.member("words", tax == nullptr ? record.verdict.reason_code : tax_words(record, *tax));
  json.end_object();
}

void write_forest(JsonWriter& json, const std::vector<const Record*>& records) {
  json.key("forest").begin_array();
  for (const Record* record : records) {
    for (const Tax& tax : record->taxes) write_forest_row(json, *record, &tax);
    if (record->taxes.empty()) write_forest_row(json, *record, nullptr);
  }
  json.end_array();
}

void write_arm(JsonWriter& json, const ArmSteps& arm, double low, double high) {
  std::vector<int64_t> counts(kBins, 0);
  int64_t over = 0;
  for (const double seconds : arm.sorted) {
    if (seconds > high) {
      ++over;
      continue;
    }
    const double share = (seconds - low) / (high - low);
    ++counts[std::min<size_t>(kBins - 1, static_cast<size_t>(std::max(0.0, share) * kBins))];
  }
  json.begin_object();
  json.member("arm", arm.arm->arm);
  json.member("steps", static_cast<int64_t>(arm.sorted.size()));
  json.member("over", over);
  json.key("median").number(quantile_of_sorted(arm.sorted, 0.5));
  json.key("counts").begin_array();
  for (const int64_t count : counts) json.value(count);
  json.end_array();
  json.end_object();
}

void write_case(JsonWriter& json, const std::vector<ArmSteps>& arms) {
  double low = arms.front().sorted.front(), high = 0;
  for (const ArmSteps& arm : arms) {
    low = std::min(low, arm.sorted.front());
    high = std::max(high, quantile_of_sorted(arm.sorted, kShown));
  }
  // All steps alike: a bin around them.
  if (!(high > low)) {
    low *= 0.999;
    high = std::max(high * 1.001, low + 1e-9);
  }
  json.begin_object();
  json.key("low").number(low);
  json.key("high").number(high);
  json.key("arms").begin_array();
  for (const ArmSteps& arm : arms) write_arm(json, arm, low, high);
  json.end_array();
  json.end_object();
}

}  // namespace

bool has_step_times(const Record& record) {
  return std::any_of(record.arms.begin(), record.arms.end(),
                     [](const ArmResult& arm) { return !step_times(arm).empty(); });
}

void write_chart_data(std::ostream& out, const std::vector<const Record*>& records,
                      const Outlook* outlook) {
  JsonWriter json(out);
  json.begin_object();
  write_forest(json, records);
  json.key("steps").begin_object();
  for (size_t i = 0; i < records.size(); ++i) {
    const std::vector<ArmSteps> arms = steps_by_arm(*records[i]);
    if (arms.empty()) continue;
    json.key(std::to_string(i));
    write_case(json, arms);
  }
  json.end_object();
  write_cause_data(json, records);
  if (outlook != nullptr) write_outlook_data(json, *outlook);
  json.end_object();
}

}  // namespace dettax
