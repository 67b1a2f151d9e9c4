#include "harness/train/model_layout.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr double kDeviation = 0.02;

// A whole tensor before it is cut.
ParameterSpec matrix_spec(std::string name, int64_t rows, int64_t columns, double deviation) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.matrix = true;
  spec.deviation = deviation;
  spec.rows = spec.whole_rows = spec.initialised_rows = rows;
  spec.columns = spec.whole_columns = columns;
  spec.blocks = {{0, rows}};
  return spec;
}
ParameterSpec vector_spec(std::string name, int64_t count, float constant) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.constant = constant;
  spec.rows = spec.whole_rows = count;
  spec.blocks = {{0, count}};
  return spec;
}

// The part of `index` out of `parts` of each of the sections (sizes in rows) that the tensor is made of.
void cut_rows(ParameterSpec& spec, const std::vector<int64_t>& sections, int parts, int index) {
  spec.blocks.clear();
  spec.rows = 0;
  int64_t first = 0;
  for (const int64_t section : sections) {
    const int64_t share = section / parts;
    spec.blocks.push_back({first + share * index, share});
    spec.rows += share;
    first += section;
  }
}
void cut_columns(ParameterSpec& spec, int parts, int index) {
  spec.columns = spec.whole_columns / parts;
  spec.first_column = spec.columns * index;
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Model& model, const ModelPart& part) : model_(model), part_(part) {}

  // What is whole on every tensor rank counts on the first.
  int add(ParameterSpec spec) {
    spec.primary = spec.sharded() || part_.tp_index == 0;
    spec.layer = layer_;
    parameters_.push_back(std::move(spec));
    return static_cast<int>(parameters_.size()) - 1;
  }
  ParameterSpec& at(int index) { return parameters_[static_cast<size_t>(index)]; }
  // Rows by token; padded rows stay zero. Cut into neighbouring ranges of the vocabulary.
  int token_table(const char* name) {
    ParameterSpec spec = matrix_spec(name, model_.padded_vocabulary(), model_.width, kDeviation);
    spec.initialised_rows = model_.vocabulary;
    cut_rows(spec, {spec.rows}, part_.tp, part_.tp_index);
    return add(std::move(spec));
  }
  // Weight [out, in] and bias, cut by output: each section of it separately, as heads of queries, keys and values are.
  LinearParameters column_parallel(const std::string& name, const std::vector<int64_t>& sections,
                                   int64_t in);
  // Cut by input; the bias is whole everywhere and added once.
  LinearParameters row_parallel(const std::string& name, int64_t out, int64_t in, double deviation);
  NormParameters norm(const std::string& name) {
    NormParameters norm;
    norm.gamma = norm_vector(name + ".weight", 1);
    if (model_.bias && model_.norm == NormKind::layer_norm)
      norm.beta = norm_vector(name + ".bias", 0);
    return norm;
  }
  int norm_vector(const std::string& name, float constant) {
    ParameterSpec spec = vector_spec(name, model_.width, constant);
    spec.of_norm = true;
    return add(std::move(spec));
  }
  LayerParameters layer(int64_t index);
  void mlp(const std::string& name, int64_t width, LayerParameters& layer);
  void experts(const std::string& name, LayerParameters& layer);
  // The weights [out, in] of all experts, one below the other, cut by expert; and, as those of an MLP, by output or by input.
  int expert_up(const std::string& name, int64_t gates);
  int expert_down(const std::string& name);
  // Two projections a layer add to the residual stream; by this factor its variance does not grow with depth. A truncated model
  // starts like the layers of the whole one.
  double residual_deviation() const {
    return kDeviation / std::sqrt(2.0 * static_cast<double>(model_.published_layers));
  }
  std::vector<ParameterSpec> take() { return std::move(parameters_); }

 private:
  const Model& model_;
  const ModelPart& part_;
  std::vector<ParameterSpec> parameters_;
  int64_t layer_ = -1;  // being built
};

LinearParameters LayoutBuilder::column_parallel(const std::string& name,
                                                const std::vector<int64_t>& sections, int64_t in) {
  const int64_t out = std::accumulate(sections.begin(), sections.end(), int64_t{0});
  LinearParameters linear;
  ParameterSpec weight = matrix_spec(name + ".weight", out, in, kDeviation);
  cut_rows(weight, sections, part_.tp, part_.tp_index);
  linear.weight = add(std::move(weight));
  if (!model_.bias) return linear;
  ParameterSpec bias = vector_spec(name + ".bias", out, 0);
  cut_rows(bias, sections, part_.tp, part_.tp_index);
  linear.bias = add(std::move(bias));
  return linear;
}

LinearParameters LayoutBuilder::row_parallel(const std::string& name, int64_t out, int64_t in,
                                             double deviation) {
  LinearParameters linear;
  ParameterSpec weight = matrix_spec(name + ".weight", out, in, deviation);
  cut_columns(weight, part_.tp, part_.tp_index);
  linear.weight = add(std::move(weight));
  if (model_.bias) linear.bias = add(vector_spec(name + ".bias", out, 0));
  return linear;
}

LayerParameters LayoutBuilder::layer(int64_t index) {
  const std::string name = "layer" + std::to_string(index);
  LayerParameters layer;
  layer_ = index;
  layer.norm1 = norm(name + ".norm1");
  const int64_t queries = attention_width(model_);
  const int64_t keys = model_.key_value_heads * model_.head_width;
  layer.qkv = column_parallel(name + ".attention.qkv", {queries, keys, keys}, model_.width);
  layer.projection =
      row_parallel(name + ".attention.projection", model_.width, queries, residual_deviation());
  layer.norm2 = norm(name + ".norm2");
  if (has_experts(model_, index)) {
    experts(name + ".moe", layer);
  } else {
    mlp(name + ".mlp", model_.ffn_width, layer);
  }
  layer_ = -1;
  return layer;
}

void LayoutBuilder::mlp(const std::string& name, int64_t width, LayerParameters& layer) {
  const std::vector<int64_t> up =
      model_.activation == Activation::swiglu ? std::vector{width, width} : std::vector{width};
  layer.up = column_parallel(name + ".up", up, model_.width);
  layer.down = row_parallel(name + ".down", model_.width, width, residual_deviation());
}

int LayoutBuilder::expert_up(const std::string& name, int64_t gates) {
  const Moe& moe = *model_.moe;
  ParameterSpec spec =
      matrix_spec(name, moe.experts * gates * moe.expert_width, model_.width, kDeviation);
  const auto sections = static_cast<size_t>(moe.experts * gates);
  cut_rows(spec, std::vector(sections, moe.expert_width), part_.tp, part_.tp_index);
  const auto held = static_cast<std::ptrdiff_t>(sections) / part_.ep;
  const auto first = spec.blocks.begin() + held * part_.ep_index;
  spec.blocks = std::vector<RowBlock>(first, first + held);
  spec.rows /= part_.ep;
  // Without tp those held are one piece.
  if (part_.tp == 1) spec.blocks = {{spec.blocks.front().first, spec.rows}};
  spec.of_experts = part_.ep > 1;
  return add(std::move(spec));
}

int LayoutBuilder::expert_down(const std::string& name) {
  const Moe& moe = *model_.moe;
  ParameterSpec spec =
      matrix_spec(name, moe.experts * model_.width, moe.expert_width, residual_deviation());
  cut_rows(spec, {spec.rows}, part_.ep, part_.ep_index);
  cut_columns(spec, part_.tp, part_.tp_index);
  spec.of_experts = part_.ep > 1;
  return add(std::move(spec));
}

void LayoutBuilder::experts(const std::string& name, LayerParameters& layer) {
  const Moe& moe = *model_.moe;
  const int64_t gate = model_.activation == Activation::swiglu ? 2 : 1;
  layer.router = add(matrix_spec(name + ".router.weight", moe.experts, model_.width, kDeviation));
  layer.expert_up = expert_up(name + ".experts.up.weight", gate);
  layer.expert_down = expert_down(name + ".experts.down.weight");
  if (moe.shared_experts > 0) mlp(name + ".shared", moe.shared_experts * moe.expert_width, layer);
}

}  // namespace

Run run_at(const ParameterSpec& spec, int64_t index) {
  const int64_t row = index / spec.columns;
  const int64_t column = index % spec.columns;
  int64_t before = 0;  // rows held before the block
  for (const RowBlock& block : spec.blocks) {
    if (row >= before + block.count) {
      before += block.count;
      continue;
    }
    const int64_t whole_row = block.first + row - before;
    const int64_t whole_index = whole_row * spec.whole_columns + spec.first_column + column;
    if (spec.columns < spec.whole_columns) return {whole_index, spec.columns - column};
    return {whole_index, (before + block.count) * spec.columns - index};
  }
  throw Error(ErrorKind::internal, spec.name + " has no element " + std::to_string(index));
}

ModelPart whole_model(const Model& model) {
  ModelPart part;
  part.layers.resize(static_cast<size_t>(model.layers));
  std::iota(part.layers.begin(), part.layers.end(), 0);
  return part;
}

ModelPart part_of(const Model& model, const Layout& layout, const MeshPosition& position) {
  ModelPart part;
  part.tp = layout.tp;
  part.tp_index = position.tp;
  part.ep = layout.ep;
  part.ep_index = position.dp % layout.ep;
  const int64_t chunk = model.layers / (int64_t{layout.pp} * layout.vp);
  for (int v = 0; v < layout.vp; ++v) {
    const int64_t first = (int64_t{v} * layout.pp + position.pp) * chunk;
    for (int64_t i = 0; i < chunk; ++i) part.layers.push_back(first + i);
  }
  part.embedding = position.pp == 0;
  part.head = position.pp == layout.pp - 1;
  return part;
}

ModelLayout make_model_layout(const Model& model, const ModelPart& part) {
  LayoutBuilder builder(model, part);
  ModelLayout layout;
  // A tied table is where either of its uses is.
  if (part.embedding || (part.head && model.tied_head)) {
    layout.embedding = builder.token_table("embedding.weight");
    ParameterSpec& table = builder.at(layout.embedding);
    table.repeated = !part.embedding;
    table.primary = table.primary && part.embedding;
  }
  if (part.embedding && model.position == Position::learned) {
    layout.position =
        builder.add(matrix_spec("position.weight", model.context, model.width, kDeviation));
  }
  layout.layers.resize(static_cast<size_t>(model.layers));
  for (const int64_t i : part.layers) layout.layers[static_cast<size_t>(i)] = builder.layer(i);
  if (part.head) {
    layout.final_norm = builder.norm("final_norm");
    layout.head = model.tied_head ? layout.embedding : builder.token_table("head.weight");
  }
  layout.parameters = builder.take();
  return layout;
}

}  // namespace dettax
