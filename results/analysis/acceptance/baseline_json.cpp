#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "results/analysis/acceptance/baseline.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

BaselineRow read_row(const Json& json) {
  BaselineRow row;
  json.at("case_id").get_to(row.case_id);
  json.at("arm").get_to(row.arm);
  json.at("quantity").get_to(row.quantity);
  json.at("log_mean").get_to(row.log_mean);
  json.at("log_spread").get_to(row.log_spread);
  json.at("count").get_to(row.count);
  if (row.count < 2) throw Error(ErrorKind::config, "rows.count: at least 2 runs are expected");
  if (!(row.log_spread >= 0))
    throw Error(ErrorKind::config, "rows.log_spread: at least 0 is expected");
  return row;
}

}  // namespace

std::string baseline_json(const Baseline& baseline) {
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["platform"] = baseline.platform;
  json["provenance"] = baseline.provenance;
  json["cases"] = baseline.cases;
  json["runs"] = baseline.runs;
  json["rows"] = Json::array();
  for (const BaselineRow& row : baseline.rows) {
    json["rows"].push_back({{"case_id", row.case_id},
                            {"arm", row.arm},
                            {"quantity", row.quantity},
                            {"log_mean", row.log_mean},
                            {"log_spread", row.log_spread},
                            {"count", row.count}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Baseline parse_baseline(const std::string& text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema_version") != kSchemaVersion)
      throw Error(ErrorKind::config, "schema_version: 1 is expected");
    Baseline baseline;
    json.at("platform").get_to(baseline.platform);
    json.at("provenance").get_to(baseline.provenance);
    json.at("cases").get_to(baseline.cases);
    json.at("runs").get_to(baseline.runs);
    for (const Json& row : json.at("rows")) baseline.rows.push_back(read_row(row));
    return baseline;
  } catch (const Json::exception& fault) {
    throw Error(ErrorKind::config, name + ": is no baseline: " + fault.what());
  } catch (const Error& fault) {
    throw Error(ErrorKind::config, name + ": " + fault.what());
  }
}

}  // namespace dettax
