#include "harness/train/model_layout.h"

#include <cmath>
#include <utility>

namespace dettax {
namespace {

constexpr double kDeviation = 0.02;

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const Model& model) : model_(model) {}

  int matrix(std::string name, int64_t rows, int64_t columns, double deviation,
             int64_t initialised_rows) {
    return add({std::move(name), rows, columns, true, 0, deviation, initialised_rows});
  }
  LinearParameters linear(const std::string& name, int64_t out, int64_t in, double deviation) {
    LinearParameters linear;
    linear.weight = matrix(name + ".weight", out, in, deviation, out);
    if (model_.bias) linear.bias = add({name + ".bias", 1, out, false, 0, 0, 0});
    return linear;
  }
  NormParameters norm(const std::string& name) {
    NormParameters norm;
    norm.gamma = add({name + ".weight", 1, model_.width, false, 1, 0, 0});
    if (model_.bias && model_.norm == NormKind::layer_norm) {
      norm.beta = add({name + ".bias", 1, model_.width, false, 0, 0, 0});
    }
    return norm;
  }
  LayerParameters layer(int64_t index);
  std::vector<ParameterSpec> take() { return std::move(parameters_); }

 private:
  int add(ParameterSpec spec) {
    parameters_.push_back(std::move(spec));
    return static_cast<int>(parameters_.size()) - 1;
  }

  const Model& model_;
  std::vector<ParameterSpec> parameters_;
};

LayerParameters LayoutBuilder::layer(int64_t index) {
  const std::string name = "layer" + std::to_string(index);
  // Two projections a layer add to the residual stream; by this factor its variance does not grow with depth. A truncated model
  // starts like the layers of the whole one.
  const double residual_deviation =
      kDeviation / std::sqrt(2.0 * static_cast<double>(model_.published_layers));
  LayerParameters layer;
  layer.norm1 = norm(name + ".norm1");
  layer.qkv = linear(name + ".attention.qkv", qkv_width(model_), model_.width, kDeviation);
  layer.projection = linear(name + ".attention.projection", model_.width, attention_width(model_),
                            residual_deviation);
  layer.norm2 = norm(name + ".norm2");
  layer.up = linear(name + ".mlp.up", up_width(model_), model_.width, kDeviation);
  layer.down = linear(name + ".mlp.down", model_.width, model_.ffn_width, residual_deviation);
  return layer;
}

}  // namespace

ModelLayout make_model_layout(const Model& model) {
  LayoutBuilder builder(model);
  ModelLayout layout;
  layout.embedding = builder.matrix("embedding.weight", model.padded_vocabulary(), model.width,
                                    kDeviation, model.vocabulary);
  if (model.position == Position::learned) {
    layout.position =
        builder.matrix("position.weight", model.context, model.width, kDeviation, model.context);
  }
  for (int64_t i = 0; i < model.layers; ++i) layout.layers.push_back(builder.layer(i));
  layout.final_norm = builder.norm("final_norm");
  layout.head = model.tied_head ? layout.embedding
                                : builder.matrix("head.weight", model.padded_vocabulary(),
                                                 model.width, kDeviation, model.vocabulary);
  layout.parameters = builder.take();
  return layout;
}

}  // namespace dettax
