#include "results/attribution.h"

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

struct MechanismText {
  std::string_view words, key;
};

const MechanismText& text_of(Mechanism mechanism) {
  static constexpr std::array<MechanismText, kMechanismCount> kTexts{
      {{"compute", "compute"},
       {"filling of memory", "memory_fill"},
       {"exposed communication, waiting", "exposed_comm.wait"},
       {"exposed communication, transfer", "exposed_comm.transfer"},
       {"exposed communication", "exposed_comm.unsplit"},
       {"copies", "copy"},
       {"idle: host busy elsewhere", "idle.host"},
       {"idle: allocating", "idle.alloc"},
       {"idle: host waits for the device", "idle.sync_wait"},
       {"idle: launching", "idle.launch_api"},
       {"idle: from launch to start", "idle.launch_latency"},
       {"idle: gap on the device", "idle.dep_gap"},
       {"profiling itself", "profiler"}}};
  return kTexts[static_cast<size_t>(mechanism)];
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Adds the members of a time to an object.
void add_time(Json& json, const AttributedTime& time) {
  json["fast_seconds"] = number_or_null(time.fast_seconds);
  json["deterministic_seconds"] = number_or_null(time.deterministic_seconds);
  json["delta_seconds"] = number_or_null(time.delta_seconds);
  json["delta_low_seconds"] = time.delta ? number_or_null(time.delta->low) : Json(nullptr);
  json["delta_high_seconds"] = time.delta ? number_or_null(time.delta->high) : Json(nullptr);
  json["interval_count"] = time.delta ? time.delta->count : 0;
}

Json encode(const ProfiledArm& arm) {
  return {{"ranks", arm.ranks},
          {"steps", arm.steps},
          {"step_seconds", number_or_null(arm.step_seconds)},
          {"unmapped_ratio", number_or_null(arm.unmapped_ratio)},
          {"launches", arm.launches},
          {"launches_answered", arm.launches_answered}};
}

Json encode(const AttributionRow& row) {
  Json json;
  json["path"] = row.path;
  json["ordinal"] = row.ordinal ? Json(*row.ordinal) : Json(nullptr);
  json["mechanism"] = key_of(row.mechanism);
  json["match"] = key_of(row.match);
  add_time(json, row.time);
  json["share_of_delta_ratio"] = number_or_null(row.share_of_delta);
  json["fast_busy_seconds"] = number_or_null(row.fast_busy_seconds);
  json["deterministic_busy_seconds"] = number_or_null(row.deterministic_busy_seconds);
  json["hidden_delta_seconds"] = number_or_null(row.hidden_delta_seconds);
  json["fast_count"] = number_or_null(row.fast_count);
  json["deterministic_count"] = number_or_null(row.deterministic_count);
  json["fast_work"] = row.fast_work;
  json["deterministic_work"] = row.deterministic_work;
  return json;
}

}  // namespace

std::string_view words_of(Mechanism mechanism) { return text_of(mechanism).words; }
std::string_view key_of(Mechanism mechanism) { return text_of(mechanism).key; }

std::string_view key_of(KeyMatch match) {
  static constexpr std::array<std::string_view, 3> kKeys{"both", "fast_only", "deterministic_only"};
  return kKeys[static_cast<size_t>(match)];
}

std::string to_json(const Attribution& attribution) {
  Json json;
  json["schema_version"] = 1;
  json["fast"] = encode(attribution.fast);
  json["deterministic"] = encode(attribution.deterministic);
  add_time(json["step"], attribution.step);
  json["mechanisms"] = Json::array();
  for (const MechanismRow& row : attribution.mechanisms) {
    Json part{{"mechanism", key_of(row.mechanism)}};
    add_time(part, row.time);
    part["fast_count"] = number_or_null(row.fast_count);
    part["deterministic_count"] = number_or_null(row.deterministic_count);
    json["mechanisms"].push_back(std::move(part));
  }
  add_time(json["unmapped"], attribution.unmapped);
  json["profiling_distortion_seconds"] = attribution.distortion_seconds
                                             ? number_or_null(*attribution.distortion_seconds)
                                             : Json(nullptr);
  json["rows"] = Json::array();
  for (const AttributionRow& row : attribution.rows) json["rows"].push_back(encode(row));
  json["notes"] = attribution.notes;
  json["advice"] = attribution.advice;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dettax
