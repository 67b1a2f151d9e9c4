#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "results/reason.h"
#include "results/record_fields.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
concept Struct = std::is_class_v<T> && std::is_aggregate_v<T>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Reader {
 public:
  // `where` names file and key so far.
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fail(where_, "must be an object");
  }

  template <class T>
  void operator()(const char* key, T& value) {
    const Json& found = need(key);
    if constexpr (std::is_same_v<T, double>) {
      if (found.is_null()) {
        value = not_finite(key);
        return;
      }
    }
    decode(found, path(key), value);
    if constexpr (std::is_same_v<T, std::vector<double>> ||
                  std::is_same_v<T, std::vector<std::vector<double>>>) {
      if (holds_null(found)) reason(key);
    }
  }
  template <class T, size_t N>
  void choice(const char* key, T& value, const std::array<T, N>& values) {
    std::string word;
    decode(need(key), path(key), word);
    std::string known;
    for (T candidate : values) {
      if (word == to_string(candidate)) {
        value = candidate;
        return;
      }
      known += (known.empty() ? "" : ", ") + std::string(to_string(candidate));
    }
    fail(path(key), "'" + word + "' is none of " + known);
  }
  template <class T>
  void optional(const char* key, std::optional<T>& value, const char*) {
    if (need(key).is_null()) {
      reason(key);
      value.reset();
      return;
    }
    (*this)(key, value.emplace());
  }
  template <class T>
  void part(const char* key, std::optional<T>& value) {
    const Json& found = need(key);
    value.reset();
    if (!found.is_null()) decode(found, path(key), value.emplace());
  }
  // A part that records of this version need not have.
  template <class T>
  void addition(const char* key, std::optional<T>& value) {
    value.reset();
    if (json_.contains(key)) part(key, value);
  }
  void finish() const {
    for (const auto& [key, unused] : json_.items()) {
      if (!seen_.contains(key))
        fail(path(key), "is not a key of schema version " + std::to_string(kRecordSchemaVersion));
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& where, const std::string& what) {
    throw Error(ErrorKind::config, where + ": " + what);
  }
  std::string path(const std::string& key) const {
    return where_ + (where_.ends_with(": ") ? "" : ".") + key;
  }
  const Json& need(const std::string& key) {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(path(key), "is missing");
    seen_.insert(key);
    return *found;
  }
  std::string reason(const std::string& key) {
    std::string text;
    decode(need(key + "_reason"), path(key + "_reason"), text);
    if (text.empty()) fail(path(key + "_reason"), "must say why the value is missing");
    return text;
  }
  double not_finite(const std::string& key) {
    const std::string text = reason(key);
    if (text == record_fields::reason_not_finite(kInfinity)) return kInfinity;
    if (text == record_fields::reason_not_finite(-kInfinity)) return -kInfinity;
    return std::numeric_limits<double>::quiet_NaN();
  }
  // NaN breaks no order: it says that there is no interval.
  static void check_interval(const Estimate& value, const std::string& where) {
    if (value.low > value.value) fail(where + ".low", "is over the value");
    if (value.high < value.value) fail(where + ".high", "is under the value");
    if (value.count < 0) fail(where + ".count", "must be 0 or more");
  }
  static bool holds_null(const Json& array) {
    return std::any_of(array.begin(), array.end(), [](const Json& item) {
      return item.is_null() || (item.is_array() && holds_null(item));
    });
  }

  template <class T>
  static void decode(const Json& json, const std::string& where, T& value) {
    if constexpr (Struct<T>) {
      Reader inner(json, where);
      record_fields::fields(inner, value);
      inner.finish();
      if constexpr (std::is_same_v<T, Estimate>) check_interval(value, where);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) fail(where, "must be true or false");
      value = json.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) fail(where, "must be a string");
      value = json.get<std::string>();
    } else {
      static_assert(std::is_integral_v<T>);
      if (!json.is_number_integer() || (std::is_unsigned_v<T> && !json.is_number_unsigned()))
        fail(where, "must be a whole number");
      if (json.is_number_unsigned() &&
          json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max()))
        fail(where, "is too large");
      value = json.get<T>();
    }
  }
  static void decode(const Json& json, const std::string& where, double& value) {
    if (json.is_null()) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else {
      if (!json.is_number()) fail(where, "must be a number");
      value = json.get<double>();
    }
  }
  static void decode(const Json& json, const std::string& where,
                     std::map<std::string, std::string>& values) {
    if (!json.is_object()) fail(where, "must be an object");
    values.clear();
    const std::string prefix = where + ".";
    for (const auto& [key, item] : json.items()) decode(item, prefix + key, values[key]);
  }
  template <class T>
  static void decode(const Json& json, const std::string& where, std::vector<T>& values) {
    if (!json.is_array()) fail(where, "must be a list");
    values.clear();
    for (size_t i = 0; i < json.size(); ++i)
      decode(json[i], where + "[" + std::to_string(i) + "]", values.emplace_back());
  }

  const Json& json_;
  std::string where_;
  std::set<std::string, std::less<>> seen_;
};

// The parser itself lets a second key of the same name through.
class DuplicateGuard {
 public:
  explicit DuplicateGuard(const std::string& name) : name_(name) {}
  bool operator()(int, nlohmann::detail::parse_event_t event, const Json& parsed) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw Error(ErrorKind::config, name_ + ": the key '" + parsed.get<std::string>() +
                                         "' stands twice in one object");
    return true;
  }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;
};

// `byte` is the one, counted from 1, at which the text stopped to be JSON.
Error damaged(const std::string& text, const std::string& name, size_t byte) {
  if (byte > text.size())
    return {ErrorKind::config, name + ": is not whole JSON: it ends too early; was it cut off?"};
  const auto at = text.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(byte, 1) - 1);
  const auto line = 1 + std::count(text.begin(), at, '\n');
  return {ErrorKind::config, name + ":" + std::to_string(line) +
                                 ": is not whole JSON from here on; was it damaged or edited?"};
}

Json parse(const std::string& text, const std::string& name) {
  DuplicateGuard guard(name);
  try {
    return Json::parse(text, [&](int depth, nlohmann::detail::parse_event_t event, Json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const nlohmann::json::parse_error& error) {
    throw damaged(text, name, error.byte);
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::config,
                name + ": is not whole JSON: it holds a number too large to read");
  }
}

const ReasonInfo& known_reason(const std::string& code, const std::string& where) {
  std::vector<std::string> known;
  for (const ReasonInfo& one : reason_table()) {
    if (one.code == code) return one;
    known.emplace_back(one.code);
  }
  throw Error(ErrorKind::config,
              where + ": there is no reason code '" + code + "'" + did_you_mean(code, known));
}

void check_positive(const Estimate& estimate, const std::string& where) {
  // What is no number says so itself.
  const bool negative = std::isfinite(estimate.low) && estimate.low < 0;
  if (negative || (std::isfinite(estimate.value) && estimate.value <= 0))
    throw Error(ErrorKind::config, where + ": must be over 0, as times and their ratios are");
}

void check_estimates(const Record& record, const std::string& name) {
  for (size_t i = 0; i < record.arms.size(); ++i) {
    if (const auto& seconds = record.arms[i].step_time_seconds)
      check_positive(*seconds, name + ": arms[" + std::to_string(i) + "].step_time_seconds");
  }
  for (size_t i = 0; i < record.taxes.size(); ++i) {
    const std::string where = name + ": taxes[" + std::to_string(i) + "].";
    check_positive(record.taxes[i].overhead_ratio, where + "overhead_ratio");
    if (const auto& control = record.taxes[i].control_ratio)
      check_positive(*control, where + "control_ratio");
  }
}

void check(const Record& record, const std::string& name) {
  check_estimates(record, name);
  for (size_t i = 0; i < record.arms.size(); ++i) {
    const std::string& code = record.arms[i].failure_code;
    if (!code.empty()) known_reason(code, name + ": arms[" + std::to_string(i) + "].failure_code");
  }
  const ReasonInfo& info = known_reason(record.verdict.reason_code, name + ": verdict.reason_code");
  if (info.status != record.verdict.status ||
      static_cast<int>(info.exit_code) != record.verdict.exit_code) {
    throw Error(ErrorKind::config, name + ": verdict: reason_code " + std::string(info.code) +
                                       " goes with status " + to_string(info.status) +
                                       " and exit_code " +
                                       std::to_string(static_cast<int>(info.exit_code)));
  }
}

}  // namespace

Record parse_record(const std::string& json, const std::string& name) {
  const Json parsed = parse(json, name);
  const auto version = parsed.is_object() ? parsed.find("schema_version") : parsed.end();
  if (!parsed.is_object() || version == parsed.end())
    throw Error(ErrorKind::config, name + ": schema_version: is missing; this is no record");
  if (*version != kRecordSchemaVersion) {
    throw Error(ErrorKind::config, name + ": schema_version: is " + version->dump() +
                                       "; this program reads " +
                                       std::to_string(kRecordSchemaVersion));
  }
  Record record;
  Reader reader(parsed, name + ": ");
  record_fields::fields(reader, record);
  reader.finish();
  check(record, name);
  return record;
}

}  // namespace dettax
