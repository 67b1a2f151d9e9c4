#include "harness/train/stage_activations.h"

namespace dettax {
namespace {

const Tensor& in_turn(const std::vector<Tensor>& tensors, int64_t number) {
  return tensors[static_cast<size_t>(number) % tensors.size()];
}

}  // namespace

StageActivations::StageActivations(const Case& planned, const Knobs& knobs, const Stage& stage,
                                   Device& device) {
  lay_out(planned, knobs, stage);
  arena_.allocate(device);
  lay_out(planned, knobs, stage);
}

void StageActivations::lay_out(const Case& planned, const Knobs& knobs, const Stage& stage) {
  const ActivationShapes shapes = activation_shapes(planned);
  const Recompute recompute = planned.layout.recompute;
  const bool pipeline = planned.layout.pp > 1;
  losses_ = losses_with_stream(shapes);
  shared_ = take_shared(arena_, shapes, planned, knobs, stage);
  const LayerActivations recomputed = take_recomputed(arena_, shapes, recompute);
  chunks_.clear();
  for (const Chunk& chunk : stage.chunks) {
    ChunkMemory& memory = chunks_.emplace_back();
    memory.first_layer = chunk.first_layer;
    const int64_t inputs = chunk.slots + (chunk.embedding ? 0 : 1);
    for (int64_t i = 0; i < inputs; ++i) {
      memory.inputs.push_back(chunk.embedding ? take_residual(arena_, shapes)
                                              : take_stream(arena_, shapes));
    }
    for (int64_t i = 0; i < chunk.slots; ++i) {
      Slot& slot = memory.slots.emplace_back();
      if (chunk.embedding) slot.tokens = take_ids(arena_, shapes);
      if (chunk.head) slot.targets = take_ids(arena_, shapes);
      for (int64_t layer = chunk.first_layer; layer < chunk.end_layer(); ++layer) {
        LayerActivations& kept =
            slot.layers.emplace_back(take_layer(arena_, shapes, recompute, recomputed, layer));
        kept.output = layer == chunk.last_layer() ? take_stream(arena_, shapes)
                                                  : take_residual(arena_, shapes);
      }
    }
  }
  d_residual_.clear();
  for (int64_t i = 0; i < (pipeline ? kGradientsInAPipeline : 1); ++i)
    d_residual_.push_back(take_residual(arena_, shapes));
}

const StageActivations::Slot& StageActivations::slot(int chunk, int64_t micro_batch) const {
  const std::vector<Slot>& slots = memory(chunk).slots;
  return slots[static_cast<size_t>(micro_batch) % slots.size()];
}

Activations StageActivations::pass(int chunk, int64_t micro_batch, int64_t gradients) const {
  const Slot& in = slot(chunk, micro_batch);
  Activations view = shared_;
  view.tokens = in.tokens;
  view.targets = in.targets;
  view.input = input(chunk, micro_batch);
  view.layers = ChunkLayers(in.layers.data(), memory(chunk).first_layer);
  view.d_residual = d_residual(gradients);
  view.balance = losses_behind(output(chunk, micro_batch));
  if (memory(chunk).first_layer > 0) view.balance_before = losses_behind(view.input);
  return view;
}

Tensor StageActivations::losses_behind(const Tensor& stream) const {
  if (losses_ == 0) return {};
  return make_tensor(stream.f32() + stream.count(), DType::f32, {losses_});
}

const Tensor& StageActivations::input(int chunk, int64_t micro_batch) const {
  return in_turn(memory(chunk).inputs, micro_batch);
}

const Tensor& StageActivations::output(int chunk, int64_t micro_batch) const {
  return slot(chunk, micro_batch).layers.back().output;
}

const Tensor& StageActivations::d_residual(int64_t gradients) const {
  return in_turn(d_residual_, gradients);
}

}  // namespace dettax
