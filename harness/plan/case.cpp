#include "harness/plan/case.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// Weights of the attention projections of one layer.
int64_t attention_weights(const Model& m) {
  if (m.latent_attention) {
    const LatentAttention& a = *m.latent_attention;
    const int64_t query =
        m.width * a.query_rank + a.query_rank * m.heads * (a.nope_head_width + a.rope_head_width);
    const int64_t key_value = m.width * (a.key_value_rank + a.rope_head_width) +
                              a.key_value_rank * m.heads * (a.nope_head_width + a.value_head_width);
    return query + key_value + m.heads * a.value_head_width * m.width;
  }
  return m.width * m.head_width * (2 * m.heads + 2 * m.key_value_heads);
}

int64_t attention_biases(const Model& m) {
  return m.head_width * (m.heads + 2 * m.key_value_heads) + m.width;
}

// A gated activation has two input matrices.
int64_t ffn_inputs(const Model& m) { return m.activation == Activation::swiglu ? 2 : 1; }

int64_t ffn_weights(const Model& m, int64_t ffn_width) {
  return (ffn_inputs(m) + 1) * m.width * ffn_width;
}

int64_t ffn_biases(const Model& m, int64_t ffn_width) {
  return ffn_inputs(m) * ffn_width + m.width;
}

// Weights of all layers' matrix multiplications; of the experts, `experts` are counted.
int64_t layer_weights(const Model& m, int64_t experts) {
  const int64_t sparse = expert_layers(m);
  int64_t total =
      m.layers * attention_weights(m) + (m.layers - sparse) * ffn_weights(m, m.ffn_width);
  if (m.moe && sparse > 0) {
    const Moe& moe = *m.moe;
    const int64_t each = ffn_weights(m, moe.expert_width);
    total += sparse * (m.width * moe.experts + (experts + moe.shared_experts) * each);
  }
  return total;
}

// What is not the weight of a matrix multiplication: norms and biases.
int64_t small_parameters(const Model& m) {
  const int64_t norm = m.width * (m.bias && m.norm == NormKind::layer_norm ? 2 : 1);
  int64_t total = norm * (2 * m.layers + 1);
  if (m.latent_attention) {
    total += m.layers * (m.latent_attention->query_rank + m.latent_attention->key_value_rank);
  }
  if (m.bias) total += m.layers * (attention_biases(m) + ffn_biases(m, m.ffn_width));
  return total;
}

}  // namespace

bool has_experts(const Model& model, int64_t layer) {
  return model.moe && layer >= model.moe->first_layer;
}

int64_t expert_layers(const Model& model) {
  return model.moe ? std::max<int64_t>(0, model.layers - model.moe->first_layer) : 0;
}

int64_t parameter_count(const Model& model) {
  const int64_t tables = (model.tied_head ? 1 : 2) * model.vocabulary * model.width +
                         (model.position == Position::learned ? model.context * model.width : 0);
  return tables + layer_weights(model, model.moe ? model.moe->experts : 0) +
         small_parameters(model);
}

double flops_per_step(const Model& model, int64_t tokens, int64_t sequence_length) {
  const int64_t weights =
      layer_weights(model, model.moe ? model.moe->top_k : 0) + model.vocabulary * model.width;
  // Query-key and probability-value products, half of each under the causal mask.
  int64_t widths = 2 * model.head_width;
  if (const auto& a = model.latent_attention) {
    widths = a->nope_head_width + a->rope_head_width + a->value_head_width;
  }
  const double attention = 6.0 * static_cast<double>(model.layers * model.heads * widths) *
                           static_cast<double>(sequence_length) / 2;
  return static_cast<double>(tokens) * (6.0 * static_cast<double>(weights) + attention);
}

namespace {

std::string words(const Link& link, const std::string& where) {
  std::vector<std::string> parts;
  if (link.bytes_per_second > 0) parts.push_back(format_bytes(link.bytes_per_second) + "/s");
  if (link.latency_seconds > 0) parts.push_back(format_seconds(link.latency_seconds));
  return where + " " + join(parts, " and ");
}

}  // namespace

std::string link_words(const Topology& topology) {
  std::vector<std::string> links;
  if (topology.intra_node.limited()) links.push_back(words(topology.intra_node, "inside a node"));
  if (topology.inter_node.limited()) links.push_back(words(topology.inter_node, "between nodes"));
  return join(links, ", ");
}

std::string Case::id() const {
  std::string text = model.name;
  const bool proxy = model.published_layers != 0 && model.layers != model.published_layers;
  if (proxy) text += fmt::format("-l{}", model.layers);
  text += fmt::format(".{}.{}.t{}.b{}x{}", to_string(precision), to_string(layout),
                      topology.threads_per_rank, batch.global, batch.sequence_length);
  if (micro_batches() > 1) text += fmt::format(".m{}", batch.micro);
  if (backend != Backend::cpu) text += fmt::format(".{}", to_string(backend));
  if (!label.empty()) text += "." + label;
  return text;
}

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
    case Precision::fp8_cs:
      return "fp8_cs";
    case Precision::fp8_ds:
      return "fp8_ds";
    case Precision::fp8_mx:
      return "fp8_mx";
    case Precision::nvfp4:
      return "nvfp4";
  }
  return "?";
}

const char* to_string(Backend backend) { return backend == Backend::cuda ? "cuda" : "cpu"; }

const char* to_string(NormKind norm) {
  return norm == NormKind::rms_norm ? "rms_norm" : "layer_norm";
}

const char* to_string(Activation activation) {
  return activation == Activation::swiglu ? "swiglu" : "gelu";
}

const char* to_string(Routing routing) {
  return routing == Routing::balanced ? "balanced" : "natural";
}

const char* to_string(Position position) { return position == Position::rope ? "rope" : "learned"; }

bool knob_acts(Knob knob, const Case& planned) {
  switch (knob) {
    case Knob::moe:
      return planned.model.moe.has_value();
    case Knob::collectives:
    case Knob::overlap:
      return planned.layout.ranks() > 1;
    default:
      return true;
  }
}

}  // namespace dettax
