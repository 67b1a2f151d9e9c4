#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

// Far above any model, far below where products of sizes overflow.
constexpr IntegerRange kSize{1, 10'000'000};
constexpr IntegerRange kCount{1, 100'000};

void read_moe(MapReader& reader, Model& model) {
  const Yaml* node = reader.find("moe");
  if (node == nullptr || node->kind == Yaml::Kind::null) return;
  if (!model.moe) model.moe.emplace();
  Moe& moe = *model.moe;
  MapReader keys(*node, reader.path("moe"));
  keys.integer("experts", moe.experts, kCount);
  keys.integer("top_k", moe.top_k, kCount);
  keys.integer("expert_width", moe.expert_width, kSize);
  keys.integer("shared_experts", moe.shared_experts, {0, kCount.high});
  keys.integer("first_layer", moe.first_layer, {0, kCount.high});
  keys.flag("normalised", moe.normalised);
  keys.number("balance_weight", moe.balance_weight, {0, 1});
  keys.number("capacity_factor", moe.capacity_factor, {0, 1000});
  keys.word("routing", moe.routing, routing_words());
  keys.finish();
  if (moe.experts == 0) throw keys.fault("experts", "is missing");
  if (moe.expert_width == 0) throw keys.fault("expert_width", "is missing");
  if (moe.top_k < 1 || moe.top_k > moe.experts) {
    throw keys.fault("top_k", fmt::format("must be from 1 to experts ({})", moe.experts));
  }
}

void read_latent_attention(MapReader& reader, Model& model) {
  const Yaml* node = reader.find("latent_attention");
  if (node == nullptr || node->kind == Yaml::Kind::null) return;
  if (!model.latent_attention) model.latent_attention.emplace();
  LatentAttention& latent = *model.latent_attention;
  MapReader keys(*node, reader.path("latent_attention"));
  const std::vector<std::pair<const char*, int64_t*>> sizes = {
      {"query_rank", &latent.query_rank},
      {"key_value_rank", &latent.key_value_rank},
      {"rope_head_width", &latent.rope_head_width},
      {"nope_head_width", &latent.nope_head_width},
      {"value_head_width", &latent.value_head_width}};
  for (const auto& [name, value] : sizes) keys.integer(name, *value, kSize);
  keys.finish();
  for (const auto& [name, value] : sizes) {
    if (*value == 0) throw keys.fault(name, "is missing");
  }
}

// Sizes that follow from others unless given.
void derive(const MapReader& reader, Model& model, bool equal_heads) {
  const Yaml& node = reader.node();
  const bool heads_given = node.find("heads") != nullptr;
  if (heads_given && node.find("key_value_heads") == nullptr && equal_heads) {
    model.key_value_heads = model.heads;
  }
  if (node.find("head_width") == nullptr && (heads_given || node.find("width") != nullptr)) {
    if (model.width % model.heads != 0) {
      throw reader.fault("width", fmt::format("{} is not divisible by heads ({}); give head_width, "
                                              "or a multiple of {}",
                                              model.width, model.heads, model.heads));
    }
    model.head_width = model.width / model.heads;
  }
  if (model.published_layers == 0) model.published_layers = model.layers;
}

void check(const MapReader& reader, const Model& model) {
  const std::vector<std::pair<const char*, int64_t>> needed = {
      {"vocabulary", model.vocabulary}, {"context", model.context}, {"layers", model.layers},
      {"width", model.width},           {"heads", model.heads},     {"ffn_width", model.ffn_width}};
  for (const auto& [name, value] : needed) {
    if (value == 0) throw reader.fault(name, "is missing");
  }
  if (model.heads % model.key_value_heads != 0) {
    throw reader.fault("key_value_heads", fmt::format("{} does not divide heads ({})",
                                                      model.key_value_heads, model.heads));
  }
  if (model.position == Position::rope && model.head_width % 2 != 0) {
    throw reader.fault("head_width",
                       fmt::format("{} is odd; rotary positions need pairs", model.head_width));
  }
}

// Files that are being read, each the base of the one before it.
using Above = std::vector<std::string>;

Model load_model_below(const std::string& path, Above above);

Model read_base(MapReader& reader, const Above& above) {
  const Yaml* base = reader.find("base");
  if (base == nullptr) return {};
  return load_model_below(resolve_base(FileKind::model, *base, reader.path("base"), above), above);
}

// What a model that is made of another differs in; cut layers are told by the case's name already.
std::vector<std::string> changes_of(const Yaml& node) {
  constexpr std::array<std::string_view, 5> kNoChange{"base", "name", "source", "layers",
                                                      "published_layers"};
  std::vector<std::string> changes;
  for (const auto& entry : node.entries) {
    if (std::ranges::find(kNoChange, entry.key) == kNoChange.end()) changes.push_back(entry.key);
  }
  return changes;
}

// A variation must not pass as the model that it was made of: a file has its own name, a map inside a suite says what it changes.
std::string name_of(const Model& base, const std::string& file, const Yaml& node) {
  if (!file.empty()) return file;
  const std::vector<std::string> changes = changes_of(node);
  return base.name.empty() || changes.empty() ? base.name : base.name + "+" + join(changes, "+");
}

Model read_model_map(const Yaml& node, const std::string& key, const std::string& file,
                     const Above& above) {
  MapReader reader(node, key);
  Model model = read_base(reader, above);
  const bool equal_heads = model.heads == model.key_value_heads;
  model.name = name_of(model, file, node);
  reader.text("name", model.name);
  reader.text("source", model.source);
  reader.integer("vocabulary", model.vocabulary, {2, kSize.high});
  reader.integer("vocabulary_multiple", model.vocabulary_multiple, {1, 65536});
  reader.integer("context", model.context, {1, 100'000'000});
  reader.integer("layers", model.layers, kCount);
  reader.integer("published_layers", model.published_layers, kCount);
  reader.integer("width", model.width, kSize);
  reader.integer("heads", model.heads, kCount);
  reader.integer("key_value_heads", model.key_value_heads, kCount);
  reader.integer("head_width", model.head_width, kSize);
  reader.integer("ffn_width", model.ffn_width, kSize);
  reader.word("norm", model.norm, norm_words());
  reader.number("norm_epsilon", model.norm_epsilon, {0, 1, true});
  reader.word("activation", model.activation, activation_words());
  reader.word("position", model.position, position_words());
  reader.number("rope_theta", model.rope_theta, {.low = 0, .low_open = true});
  reader.flag("tied_head", model.tied_head);
  reader.flag("bias", model.bias);
  reader.number("dropout", model.dropout, {0, 0.99});
  read_moe(reader, model);
  read_latent_attention(reader, model);
  reader.finish();
  if (model.heads == 0) throw reader.fault("heads", "is missing");
  derive(reader, model, equal_heads);
  check(reader, model);
  if (model.moe && model.moe->first_layer >= std::max(model.layers, model.published_layers))
    throw reader.fault(
        "moe.first_layer",
        fmt::format("is {}, of {} layers; from 0 to one below", model.moe->first_layer,
                    std::max(model.layers, model.published_layers)));
  if (model.name.empty()) throw reader.fault("name", "is missing");
  check_name(node, reader.path("name"), model.name);
  return model;
}

Model load_model_below(const std::string& path, Above above) {
  above.push_back(path);
  return read_model_map(read_yaml(path), "", stem(path), above);
}

}  // namespace

const std::vector<std::string>& norm_words() {
  static const std::vector<std::string> words = {"layer_norm", "rms_norm"};
  return words;
}
const std::vector<std::string>& activation_words() {
  static const std::vector<std::string> words = {"gelu", "swiglu"};
  return words;
}
const std::vector<std::string>& position_words() {
  static const std::vector<std::string> words = {"learned", "rope"};
  return words;
}

const std::vector<std::string>& routing_words() {
  static const std::vector<std::string> words = {"natural", "balanced"};
  return words;
}

Model load_model(const std::string& name_or_path) {
  return load_model_below(resolve(FileKind::model, name_or_path), {});
}

Model read_model(const Yaml& node, const std::string& key) {
  if (node.kind == Yaml::Kind::map) return read_model_map(node, key, "", {});
  return load_model(resolve(FileKind::model, node, key));
}

}  // namespace dettax
