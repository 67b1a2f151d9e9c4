#include "exporters/html/cause_data.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace dettax {
namespace {

void number(JsonWriter& json, const char* key, double value) {
  json.key(key);
  std::isfinite(value) ? json.number(value) : json.null();
}

std::vector<const KnobCost*> rows_of(const Ablation& ablation) {
  std::vector<const KnobCost*> rows;
  for (const KnobCost& cost : ablation.knobs) rows.push_back(&cost);
  rows.push_back(&ablation.interaction);
  rows.push_back(&ablation.total);
  return rows;
}

double cell(const KnobCost& cost, size_t column) {
  return column < cost.cells.size() ? cost.cells[column] : 0;
}

void write_profile(JsonWriter& json, const ArmProfile& profile) {
  json.begin_object();
  json.member("arm", profile.arm);
  json.key("mechanisms").begin_array();
  for (const MechanismTime& time : profile.mechanisms) {
    if (time.fast_seconds == 0 && time.deterministic_seconds == 0) continue;
    json.begin_object();
    json.member("name", time.mechanism);
    number(json, "delta", time.delta_seconds);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_row(JsonWriter& json, const KnobCost& cost, const std::vector<size_t>& columns) {
  json.begin_object();
  json.member("knob", cost.knob);
  json.member("part", cost.part);
  json.key("cells").begin_array();
  for (const size_t column : columns) {
    const double seconds = cell(cost, column);
    std::isfinite(seconds) ? json.number(seconds) : json.null();
  }
  json.end_array();
  number(json, "recording", cost.recording_seconds);
  number(json, "seconds", total_seconds(cost));
  const double none = std::nan("");
  number(json, "low", cost.seconds ? cost.seconds->low : none);
  number(json, "high", cost.seconds ? cost.seconds->high : none);
  json.end_object();
}

void write_ablation(JsonWriter& json, const Record& record, const Ablation& ablation) {
  const std::vector<const KnobCost*> rows = rows_of(ablation);
  std::vector<size_t> columns;  // those that take time in any setting
  for (size_t i = 0; i < ablation.mechanisms.size(); ++i) {
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const auto* cost) { return cell(*cost, i) != 0; }))
      columns.push_back(i);
  }
  json.begin_object();
  json.member("arm", ablation.arm);
  number(json, "fast", fast_seconds(record));
  json.key("mechanisms").begin_array();
  for (const size_t column : columns) json.value(ablation.mechanisms[column]);
  json.end_array();
  json.key("rows").begin_array();
  for (const KnobCost* cost : rows) write_row(json, *cost, columns);
  json.end_array();
  json.end_object();
}

bool has_causes(const Record& record) {
  return (record.ablation && has_matrix(*record.ablation)) ||
         std::any_of(record.profiles.begin(), record.profiles.end(), has_mechanisms);
}

}  // namespace

bool has_mechanisms(const ArmProfile& profile) {
  return profile.refusal.empty() &&
         std::any_of(profile.mechanisms.begin(), profile.mechanisms.end(), [](const auto& time) {
           return time.fast_seconds != 0 || time.deterministic_seconds != 0;
         });
}

bool has_matrix(const Ablation& ablation) { return ablation.refusal.empty(); }

double fast_seconds(const Record& record) {
  const ArmResult* fast = find_arm(record, "fast");
  const bool timed =
      fast != nullptr && fast->step_time_seconds && std::isfinite(fast->step_time_seconds->value);
  return timed ? fast->step_time_seconds->value : 0;
}

void write_cause_data(JsonWriter& json, const std::vector<const Record*>& records) {
  json.key("causes").begin_object();
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = *records[i];
    if (!has_causes(record)) continue;
    json.key(std::to_string(i)).begin_object();
    json.key("profiles").begin_array();
    for (const ArmProfile& profile : record.profiles) write_profile(json, profile);
    json.end_array();
    json.key("ablation");
    record.ablation&& has_matrix(*record.ablation) ? write_ablation(json, record, *record.ablation)
                                                   : json.null();
    json.end_object();
  }
  json.end_object();
}

}  // namespace dettax
