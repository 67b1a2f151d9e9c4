#include "results/analysis/decision/inputs.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/plan/knobs.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

// The ranges keep every result finite, and hold whatever anybody may mean in any currency.
constexpr NumberRange kShare{.low = 0, .high = 1};
constexpr NumberRange kHours{.low = 0, .high = 1e6};
constexpr NumberRange kPrice{.low = 0, .high = 1e9};

struct InputKey {
  const char* name;
  double Economics::* value;
  NumberRange range;
};
constexpr InputKey kKeys[] = {
    {"gpus", &Economics::gpus, {.low = 1, .high = 1e8}},
    {"run_hours", &Economics::run_hours, {.low = 0.001, .high = 1e6}},
    {"overhead_ratio", &Economics::overhead_ratio, {.low = 0, .high = 1000}},
    {"price_per_gpu_hour", &Economics::price_per_gpu_hour, {.low = 0.0001, .high = 1e6}},
    {"engineer_price_per_hour", &Economics::engineer_price_per_hour, kPrice},
    {"anomalies_per_gpu_hour", &Economics::anomalies_per_gpu_hour, {.low = 1e-12, .high = 1}},
    {"blocked_hours_fast", &Economics::blocked_hours_fast, kHours},
    {"blocked_hours_deterministic", &Economics::blocked_hours_deterministic, kHours},
    {"engineer_hours_fast", &Economics::engineer_hours_fast, kHours},
    {"engineer_hours_deterministic", &Economics::engineer_hours_deterministic, kHours},
    {"escape_probability_fast", &Economics::escape_probability_fast, kShare},
    {"escape_probability_deterministic", &Economics::escape_probability_deterministic, kShare},
    {"escape_hours", &Economics::escape_hours, kHours},
    {"window_share", &Economics::window_share, kShare},
    {"window_hazard_share", &Economics::window_hazard_share, kShare},
    {"reappearance_probability", &Economics::reappearance_probability, kShare},
    {"delay_price_per_hour", &Economics::delay_price_per_hour, kPrice}};

NumberRange range_of(const std::string& name) {
  return std::find_if(std::begin(kKeys), std::end(kKeys),
                      [&](const InputKey& key) { return name == key.name; })
      ->range;
}

// A number, or a map with a band. A number alone is taken as sure.
void read_input(const Yaml& node, NumberRange range, DecisionInput& input) {
  if (node.kind != Yaml::Kind::map) {
    input.value = input.low = input.high = read_number(node, input.name, range);
    input.missing = false;
    return;
  }
  MapReader keys(node, input.name);
  const bool has_value = keys.find("value") != nullptr;
  keys.number("value", input.value, range);
  if (has_value) input.low = input.high = input.value;
  keys.number("low", input.low, range);
  keys.number("high", input.high, range);
  keys.text("source", input.source);
  keys.finish();
  if (!has_value) input.value = std::clamp(input.value, input.low, input.high);
  if (input.low > input.value || input.value > input.high) {
    throw config_error(
        node, input.name,
        fmt::format("needs low <= value <= high; they are {}, {} and {}", format_number(input.low),
                    format_number(input.value), format_number(input.high)));
  }
  input.missing = !has_value;
}

KnobSubset read_subset(const Yaml& node) {
  MapReader keys(node, "cheapest_subset");
  KnobSubset subset;
  const Yaml& knobs = keys.require("knobs");
  if (knobs.kind != Yaml::Kind::list || knobs.items.empty())
    throw keys.fault("knobs", "must be a list of knobs, such as [gemm, attention]");
  for (const Yaml& knob : knobs.items) {
    subset.knobs.push_back(read_text(knob, keys.path("knobs")));
    try {
      knob_named(subset.knobs.back());
    } catch (const Error& error) {
      throw config_error(knob, keys.path("knobs"), error.what());
    }
  }
  keys.require("value");
  keys.number("value", subset.value, range_of("overhead_ratio"));
  subset.low = subset.high = subset.value;
  keys.number("low", subset.low, range_of("overhead_ratio"));
  keys.number("high", subset.high, range_of("overhead_ratio"));
  keys.text("source", subset.source);
  keys.finish();
  if (subset.low > subset.value || subset.value > subset.high)
    throw keys.fault("value", "needs low <= value <= high");
  return subset;
}

std::string defaults_path() {
  return (std::filesystem::path(find_home()) / "configs/decisions/defaults.yaml").string();
}

// Windows that take no time find nothing, and those that take it all leave nothing out.
void check_windows(const DecisionInputs& inputs) {
  const DecisionInput& share = inputs.named("window_share");
  const DecisionInput& hazard = inputs.named("window_hazard_share");
  if (share.low == 0 && hazard.high > 0)
    throw Error(ErrorKind::config,
                "window_share: windows of no time hold no anomalies: it must be above 0 where "
                "window_hazard_share is; without windows, set window_hazard_share=0 too");
  if (share.high == 1 && hazard.low < 1)
    throw Error(
        ErrorKind::config,
        "window_share: windows of all the time hold all anomalies: it must be below 1 where "
        "window_hazard_share is");
}

bool is_asked_for(const std::string& name) {
  return name == "gpus" || name == "run_hours" || name == "overhead_ratio";
}

}  // namespace

const std::vector<std::string>& input_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const InputKey& key : kKeys) all.emplace_back(key.name);
    return all;
  }();
  return names;
}

double& economics_value(Economics& e, const std::string& name) {
  for (const InputKey& key : kKeys) {
    if (name == key.name) return e.*key.value;
  }
  throw Error(ErrorKind::internal, "no such input: " + name);
}

const DecisionInput& DecisionInputs::named(const std::string& name) const {
  return *std::find_if(inputs.begin(), inputs.end(),
                       [&](const DecisionInput& i) { return i.name == name; });
}

Economics DecisionInputs::economics() const {
  Economics e;
  for (const DecisionInput& input : inputs) economics_value(e, input.name) = input.value;
  return e;
}

std::vector<std::string> DecisionInputs::missing() const {
  std::vector<std::string> names;
  for (const DecisionInput& input : inputs) {
    if (input.missing) names.push_back(input.name);
  }
  return names;
}

DecisionInputs DecisionInputs::with_input(const DecisionInput& input) const {
  DecisionInputs changed = *this;
  for (DecisionInput& one : changed.inputs) {
    if (one.name == input.name) one = input;
  }
  return changed;
}

DecisionInputs load_decision_inputs(const std::string& file,
                                    const std::vector<Override>& overrides) {
  const Yaml defaults = read_yaml(defaults_path());
  Yaml own = file.empty() ? yaml_map({}) : read_yaml(file);
  for (const Override& one : overrides) lay_over(own, one);
  MapReader default_keys(defaults, "");
  MapReader keys(own, "");
  DecisionInputs result;
  for (const InputKey& key : kKeys) {
    DecisionInput input;
    input.name = key.name;
    read_input(default_keys.require(key.name), key.range, input);
    // A default of these decides nothing; the answer says that they were not given.
    if (is_asked_for(input.name)) input.missing = true;
    if (const Yaml* given = keys.find(key.name);
        given != nullptr && given->kind != Yaml::Kind::null) {
      input.source.clear();
      read_input(*given, key.range, input);
      input.given = true;
    }
    result.inputs.push_back(std::move(input));
  }
  if (const Yaml* subset = keys.find("cheapest_subset")) result.cheapest = read_subset(*subset);
  default_keys.finish();
  keys.finish();
  check_windows(result);
  return result;
}

}  // namespace dettax
