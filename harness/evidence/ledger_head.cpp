#include <algorithm>
#include <array>
#include <string_view>

#include <gnu/libc-version.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/evidence/ledger_record.h"
#include "harness/plan/loaders.h"
#include "results/environment.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

LedgerDepth depth_named(const std::string& word) {
  const auto& words = ledger_depth_words();
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<LedgerDepth>(i);
  }
  throw Error(ErrorKind::config, "its depth is \"" + word + "\"; known: step, layer, op");
}

// Of a case's description what decides no bit, or is the head's own, or is how the case is laid out. A text is
// known by its hash.
constexpr std::array<std::string_view, 10> kNotOfTheSetup{
    "label",     "layout", "threads",    "topology",     "batch.micro",
    "data.path", "seed",   "model.name", "model.source", "model.published_layers"};

void flatten(const Yaml& node, const std::string& path, std::map<std::string, std::string>& out) {
  if (std::ranges::find(kNotOfTheSetup, path) != kNotOfTheSetup.end()) return;
  const std::string joint = path.empty() ? "" : path + ".";
  if (node.kind == Yaml::Kind::scalar) out[path] = node.text;
  for (const YamlEntry& entry : node.entries) flatten(entry.value, joint + entry.key, out);
  for (size_t i = 0; i < node.items.size(); ++i)
    flatten(node.items[i], joint + std::to_string(i), out);
}

}  // namespace

std::string head_text(const LedgerHead& head) {
  return Json{
      {"case_id", head.case_id},
      {"mode", head.mode},
      {"mode_hash", head.mode_hash},
      {"seed", head.seed},
      {"steps", head.steps},
      {"threads_per_rank", head.threads_per_rank},
      {"data_parallel", head.data_parallel},
      {"micro_batch", head.micro_batch},
      {"depth", to_string(head.depth)},
      {"claims_reproducible", head.claims_reproducible ? Json(*head.claims_reproducible) : Json()},
      {"model", head.model},
      {"setup", head.setup},
      {"knobs", head.knobs},
      {"environment", head.environment},
      {"suite", head.suite}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

LedgerHead parse_ledger_head(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    LedgerHead head;
    head.case_id = json.at("case_id");
    head.mode = json.at("mode");
    head.mode_hash = json.at("mode_hash");
    head.seed = json.at("seed");
    head.steps = json.at("steps");
    head.threads_per_rank = json.at("threads_per_rank");
    head.data_parallel = json.at("data_parallel");
    head.micro_batch = json.at("micro_batch");
    head.depth = depth_named(json.at("depth").get<std::string>());
    // Files of earlier builds lack the two.
    if (const auto claim = json.find("claims_reproducible");
        claim != json.end() && !claim->is_null())
      head.claims_reproducible = claim->get<bool>();
    head.setup = json.value("setup", head.setup);
    head.model = json.at("model").get<std::map<std::string, int64_t>>();
    head.knobs = json.at("knobs").get<std::map<std::string, std::string>>();
    head.environment = json.at("environment").get<std::map<std::string, std::string>>();
    head.suite = json.at("suite");
    return head;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::config,
                "its head is no head of a ledger: a key is missing or has a value of another kind");
  }
}

LedgerHead make_ledger_head(const Case& planned, const Mode& mode, LedgerDepth depth) {
  LedgerHead head;
  head.case_id = planned.id();
  head.mode = mode.name;
  head.mode_hash = mode.hash;
  head.seed = static_cast<int64_t>(planned.seed);
  head.threads_per_rank = planned.topology.threads_per_rank;
  head.data_parallel = planned.layout.dp;
  head.micro_batch = planned.batch.micro;
  head.depth = depth;
  const Model& model = planned.model;
  head.model = {{"vocabulary", model.vocabulary},
                {"vocabulary_padded", model.padded_vocabulary()},
                {"context", model.context},
                {"layers", model.layers},
                {"width", model.width},
                {"heads", model.heads},
                {"key_value_heads", model.key_value_heads},
                {"ffn_width", model.ffn_width},
                {"experts", model.moe ? model.moe->experts : 0}};
  head.claims_reproducible = mode.claims_reproducible;
  flatten(case_yaml(planned), "", head.setup);
  for (const KnobInfo& info : knob_table())
    head.knobs[std::string(info.name)] = knob_value(mode.knobs, info.knob);
  return head;
}

std::map<std::string, std::string> ledger_environment(const Environment& environment) {
  std::map<std::string, std::string> out = {
      {"tool_version", environment.tool_version}, {"git_commit", environment.git_commit},
      {"compiler", environment.compiler},         {"build_type", environment.build_type},
      {"cpu_model", environment.cpu_model},       {"kernel", environment.kernel},
      {"libc", gnu_get_libc_version()},           {"simd_target", environment.simd_target}};
  for (const std::string& name : recorded_variables()) {
    const auto found = environment.variables.find(name);
    if (found != environment.variables.end()) out[name] = found->second;
  }
  return out;
}

}  // namespace dettax
