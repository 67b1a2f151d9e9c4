#pragma once

#include <cstdint>
#include <string_view>

#include "harness/comm/mesh.h"
#include "harness/device/device.h"
#include "harness/plan/case.h"
#include "harness/plan/local_sizes.h"
#include "harness/train/activations.h"
#include "harness/train/fill_totals.h"
#include "harness/train/gathered_weights.h"
#include "harness/train/gradient_reduction.h"
#include "harness/train/model_layout.h"
#include "harness/train/operands.h"
#include "harness/train/parameters.h"
#include "harness/train/probe.h"

namespace dettax {

// What the pieces of a training step share: the parts of the trainer, borrowed, and where in the step it is.
struct StepContext {
  const Model& model;
  const Knobs& knobs;
  const Mesh& mesh;
  const ModelLayout& layout;
  const LocalSizes sizes;
  const ExpertSizes expert_sizes;
  Device& device;
  Ops& ops;
  Probe& probe;
  const ParameterStore& parameters;
  GatheredWeights& gathered;
  GradientReduction& reduction;
  Activations buffers;  // of the pass at hand
  Operands& operands;

  int64_t samples;  // of a micro-batch
  int64_t sequence_length;
  int64_t tokens;      // of a sample on this rank
  TokenPlaces places;  // and which of the sequence they are
  int64_t segments;    // of the rows of a micro-batch, each cut over ranks by sequence parallelism
  double gradient_scale;  // of the loss: 1 / tokens of the global batch, times the loss scale

  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sample = 0;  // of this micro-batch, in the global batch
  int gradient_copy = 0;     // where this micro-batch's gradients go
  bool accumulate = false;   // and whether something is there already
  FillTotals fills = {};
  int64_t micro_batch = 0;
  bool last_micro_batch = false;  // its backward pass completes gradients
  Phase phase = Phase::forward;
  int64_t layer = kNoLayer;

  int64_t rows() const { return samples * tokens; }  // of a micro-batch
  bool recomputes() const { return mesh.layout().recompute != Recompute::none; }

  void begin(Op op) { probe.begin(phase, layer, op); }
  SumOrder sum(Order order) const { return {order, knobs.dynamic_schedule}; }

  Tensor value(int parameter) const {
    return parameter == kNoParameter ? Tensor{} : parameters.value(parameter);
  }
  Tensor gradient(int parameter) const {
    return parameter == kNoParameter ? Tensor{} : parameters.gradient(parameter, gradient_copy);
  }
  // What the reduction left here of a gradient's sum over replicas: all of it, or what this rank owns.
  Tensor reduced_gradient(int parameter) const;
  // Of the head, which may be a table of its own or the tied one's second use.
  Tensor head_gradient() const { return parameters.head_gradient(gradient_copy); }
  std::string_view head_gradient_name() const {
    return model.tied_head && !parameters.apart() ? "embedding.weight.grad" : "head.weight.grad";
  }

  // An output that is about to be written whole. Under memory_fill it is first filled, as a framework fills every fresh tensor.
  Tensor fresh(const Tensor& tensor);
  // An activation that an op has written: rounded to the format that activations have in this precision, then shown.
  void output(std::string_view name, const Tensor& activation);
  void round(const Tensor& activation);
  // What the matrix product of this op reads of a tensor; good until the next operand of the same part.
  Tensor operand(Operand part, Op op, const Tensor& values, SumOver sum);
  // The head's weight, likewise.
  Tensor head_operand();

  // Shows an activation: the rows of this micro-batch, seen as part of the global batch.
  void show(std::string_view name, const Tensor& activation);
  void show_gradient(int parameter);
};

}  // namespace dettax
