#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "results/analysis/acceptance/baseline.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::config, where + ": " + what);
}

// An object of which every key is asked for once.
class Reader {
 public:
  // `where` names file and key so far, to its last sign.
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  std::string path(const std::string& key) const { return where_ + key; }
  const Json& need(const std::string& key) {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(path(key), "is missing");
    seen_.insert(key);
    return *found;
  }
  void operator()(const char* key, std::string& value) { value = text(need(key), path(key)); }
  void operator()(const char* key, double& value) {
    const Json& found = need(key);
    if (!found.is_number()) fail(path(key), "must be a number");
    value = found.get<double>();
  }
  void operator()(const char* key, int64_t& value) {
    const Json& found = need(key);
    // Beyond the range is unsigned, or a double.
    if (!found.is_number_integer() ||
        (found.is_number_unsigned() && found.get<uint64_t>() > uint64_t{INT64_MAX}))
      fail(path(key), "must be a whole number");
    value = found.get<int64_t>();
  }
  void operator()(const char* key, std::vector<std::string>& values) {
    const Json& found = need(key);
    if (!found.is_array()) fail(path(key), "must be a list");
    for (const Json& one : found)
      values.push_back(text(one, fmt::format("{}[{}]", path(key), values.size())));
  }
  void operator()(const char* key, std::map<std::string, std::string>& values) {
    const Json& found = need(key);
    if (!found.is_object()) fail(path(key), "must be an object");
    for (const auto& [name, one] : found.items()) values[name] = text(one, path(key) + "." + name);
  }
  void finish() const {
    for (const auto& [key, unused] : json_.items()) {
      if (!seen_.contains(key)) fail(path(key), "is no key of a baseline");
    }
  }

 private:
  static std::string text(const Json& json, const std::string& where) {
    if (!json.is_string()) fail(where, "must be a string");
    return json.get<std::string>();
  }

  const Json& json_;
  std::string where_;
  std::set<std::string, std::less<>> seen_;
};

BaselineRow read_row(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(where, "must be an object");
  Reader read(json, where + ".");
  BaselineRow row;
  read("case_id", row.case_id);
  read("arm", row.arm);
  read("quantity", row.quantity);
  read("log_mean", row.log_mean);
  read("log_spread", row.log_spread);
  read("count", row.count);
  read.finish();
  if (row.count < 2) fail(read.path("count"), "at least 2 runs are expected");
  if (!(row.log_spread >= 0)) fail(read.path("log_spread"), "at least 0 is expected");
  return row;
}

Json parse(const std::string& text, const std::string& name) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  // Of a key that stands twice one value would be passed over.
  const auto note = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail(name, fmt::format("the key {} stands twice in one object", parsed.dump()));
    return true;
  };
  try {
    return Json::parse(text, note);
  } catch (const nlohmann::json::parse_error& fault) {
    const size_t end = std::min(fault.byte, text.size());
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    fail(fmt::format("{}:{}", name, line), "is not whole JSON; was it cut off or edited?");
  } catch (const nlohmann::json::exception&) {
    fail(name, "is not whole JSON: it holds a number too large to read");
  }
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
  const Json json = parse(text, name);
  if (!json.is_object()) fail(name, "is no baseline: an object is expected");
  Reader read(json, name + ": ");
  if (const Json& version = read.need("schema_version"); version != kSchemaVersion)
    fail(read.path("schema_version"),
         fmt::format("is {}; this program reads {}", version.dump(), kSchemaVersion));
  Baseline baseline;
  read("platform", baseline.platform);
  read("provenance", baseline.provenance);
  read("cases", baseline.cases);
  read("runs", baseline.runs);
  const Json& rows = read.need("rows");
  read.finish();
  if (!rows.is_array() || rows.empty()) fail(read.path("rows"), "must be a list of rows");
  for (const Json& row : rows)
    baseline.rows.push_back(
        read_row(row, fmt::format("{}[{}]", read.path("rows"), baseline.rows.size())));
  return baseline;
}

}  // namespace dettax
