#include <algorithm>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/plan/catalog.h"
#include "harness/plan/claims.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

std::string mode_hash(const Mode& mode) {
  std::string text;
  for (const KnobInfo& info : knob_table()) {
    text += fmt::format("{}={}\n", info.name, knob_value(mode.knobs, info.knob));
  }
  for (const auto& [name, value] : mode.environment)
    text += fmt::format("env {}={}\n", name, value);
  return hash_text(text);
}

// Reads the knobs given and returns what they say, for the name of a derived mode.
std::vector<std::string> read_knobs(MapReader& reader, Mode& mode) {
  std::vector<std::string> changes;
  const Yaml* node = reader.find("knobs");
  if (node == nullptr) return changes;
  MapReader keys(*node, reader.path("knobs"));
  for (const KnobInfo& info : knob_table()) {
    const std::string name(info.name);
    const Yaml* value = keys.find(name);
    if (value == nullptr) continue;
    const std::vector<std::string> words(info.values.begin(), info.values.end());
    const std::string& word = words[read_word(*value, keys.path(name), words)];
    set_knob(mode.knobs, info.name, word);
    changes.push_back(fmt::format("{}.{}", name, word));
  }
  keys.finish();
  return changes;
}

bool is_variable_name(const std::string& name) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  return !name.empty() && name.find_first_not_of(kSafe) == std::string::npos &&
         (name[0] < '0' || name[0] > '9');
}

bool read_environment(MapReader& reader, Mode& mode) {
  const Yaml* node = reader.find("environment");
  if (node == nullptr) return false;
  MapReader keys(*node, reader.path("environment"));
  for (const auto& [name, value] : node->entries) {
    if (!is_variable_name(name)) {
      throw config_error(value, keys.path(name), "is no name of an environment variable");
    }
    mode.environment[name] = read_text(value, keys.path(name));
  }
  return true;
}

// The variables whose values are known to matter, and the values known to be reproducible (Megatron
// Core's list for NCCL_ALGO). An empty answer means that the value is accepted.
std::string environment_fault(const std::string& name, const std::string& value) {
  static const std::vector<std::string> kAlgorithms = {"Ring", "CollnetDirect", "CollnetChain",
                                                       "^NVLS"};
  if (name == "NVTE_ALLOW_NONDETERMINISTIC_ALGO" && value != "0") return "must be 0";
  if (name != "NCCL_ALGO") return "";
  for (const std::string& token : split(value, ',')) {
    if (std::find(kAlgorithms.begin(), kAlgorithms.end(), token) == kAlgorithms.end()) {
      return "must be a list of " + join(kAlgorithms, ", ");
    }
  }
  return "";
}

void check_environment(const MapReader& reader, const Mode& mode) {
  const Yaml* given = reader.node().find("environment");
  for (const auto& [name, value] : mode.environment) {
    const Yaml* entry = given == nullptr ? nullptr : given->find(name);
    const Yaml& place = entry == nullptr ? reader.node() : *entry;
    const std::string key = reader.path("environment." + name);
    const bool cublas = name == "CUBLAS_WORKSPACE_CONFIG";
    if (cublas && value != ":4096:8" && value != ":16:8") {
      throw config_error(place, key,
                         fmt::format("must be :4096:8 or :16:8, not \"{}\"; cuBLAS is not "
                                     "reproducible with others",
                                     value));
    }
    if (!mode.claims_reproducible || mode.allow_unproven_environment) continue;
    const std::string fault = environment_fault(name, value);
    if (fault.empty()) continue;
    throw config_error(place, key,
                       fmt::format("{} in a mode that claims to be reproducible, not \"{}\"; "
                                   "allow_unproven_environment: true accepts it",
                                   fault, value));
  }
}

void require_all_knobs(const MapReader& reader) {
  const Yaml* given = reader.node().find("knobs");
  std::vector<std::string> missing;
  for (const KnobInfo& info : knob_table()) {
    const std::string name(info.name);
    if (given == nullptr || given->find(name) == nullptr) missing.push_back(name);
  }
  if (missing.empty()) return;
  throw reader.fault("knobs",
                     fmt::format("{} missing; a mode without a base names every knob, and "
                                 "base: deterministic, say, would supply the others",
                                 join(missing, ", ") + (missing.size() == 1 ? " is" : " are")));
}

// A base with one knob weakened is how a user sees evidence fail; a mode of its own would only lie.
void check_claims(const MapReader& reader, Mode& mode, bool derived) {
  const std::vector<UnmetClaim> unmet = unmet_claims(mode);
  if (unmet.empty()) return;
  if (derived) mode.allow_unproven_knobs = true;
  if (mode.allow_unproven_knobs) return;
  const std::string name(knob_name(unmet.front().knob));
  throw config_error(*reader.node().find("knobs")->find(name), reader.path("knobs." + name),
                     in_words(unmet.front(), mode.knobs) +
                         "; allow_unproven_knobs: true accepts it, to see the evidence fail");
}

// Files that are being read, each the base of the one before it.
using Above = std::vector<std::string>;

Mode load_mode_below(const std::string& path, Above above);

Mode read_mode_map(const Yaml& node, const std::string& key, const std::string& default_name,
                   const Above& above) {
  MapReader reader(node, key);
  const Yaml* base = reader.find("base");
  Mode mode;
  if (base != nullptr)
    mode = load_mode_below(resolve_base(FileKind::mode, *base, reader.path("base"), above), above);
  if (mode.name.empty()) mode.name = default_name;
  std::vector<std::string> changes = read_knobs(reader, mode);
  if (read_environment(reader, mode)) changes.emplace_back("environment");
  // A variation must not pass as the mode that it was made of.
  if (base != nullptr && !changes.empty()) mode.name += "+" + join(changes, "+");
  reader.text("name", mode.name);
  reader.text("note", mode.note);
  reader.flag("claims_reproducible", mode.claims_reproducible);
  reader.flag("claims_invariant", mode.claims_invariant);
  reader.flag("allow_unproven_environment", mode.allow_unproven_environment);
  reader.flag("allow_unproven_knobs", mode.allow_unproven_knobs);
  reader.finish();
  if (mode.name.empty()) throw reader.fault("name", "is missing");
  check_name(node, reader.path("name"), mode.name);
  if (mode.claims_invariant && !mode.claims_reproducible) {
    throw reader.fault("claims_invariant", "needs claims_reproducible: true");
  }
  check_environment(reader, mode);
  if (base == nullptr) require_all_knobs(reader);
  check_claims(reader, mode, base != nullptr);
  mode.hash = mode_hash(mode);
  return mode;
}

Mode load_mode_below(const std::string& path, Above above) {
  above.push_back(path);
  return read_mode_map(read_yaml(path), "", stem(path), above);
}

}  // namespace

Mode load_mode(const std::string& name_or_path) {
  return load_mode_below(resolve(FileKind::mode, name_or_path), {});
}

Mode read_mode(const Yaml& node, const std::string& key) {
  if (node.kind == Yaml::Kind::map) return read_mode_map(node, key, "", {});
  return load_mode(resolve(FileKind::mode, node, key));
}

}  // namespace dettax
