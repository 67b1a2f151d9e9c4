#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/activations.h"
#include "harness/train/stage.h"

namespace dettax {

// All activations of a rank: what a pass needs within itself once, what the forward pass keeps for the backward pass in one slot for
// each micro-batch that a chunk has in flight. Micro-batches go through a chunk in order, so that number m has slot m modulo slots.
// Everything is laid out here, once.
class StageActivations {
 public:
  StageActivations(const Case& planned, const Knobs& knobs, const Stage& stage, Device& device);

  // What a pass sees. `gradients` counts backward passes of the step: a stage of a pipeline works on one gradient of the residual
  // stream while the one before is under way to the neighbour and the next one arrives.
  Activations pass(int chunk, int64_t micro_batch, int64_t gradients = 0) const;
  // The residual stream in front of a chunk's first layer. Where it comes from another stage, the next may arrive while all slots are
  // in use.
  const Tensor& input(int chunk, int64_t micro_batch) const;
  // Behind its last layer.
  const Tensor& output(int chunk, int64_t micro_batch) const;
  const Tensor& d_residual(int64_t gradients) const;
  // The load-balance losses behind a stream in front of or behind a chunk; empty where the model has none.
  Tensor losses_behind(const Tensor& stream) const;
  int64_t losses_bytes() const { return losses_ * static_cast<int64_t>(sizeof(float)); }
  static constexpr int64_t kGradientsInAPipeline = 3;

  // What belongs to no micro-batch.
  const Activations& shared() const { return shared_; }
  int64_t bytes() const { return arena_.bytes(); }

 private:
  struct Slot {
    Tensor tokens, targets;
    std::vector<LayerActivations> layers;
  };
  struct ChunkMemory {
    int64_t first_layer = 0;
    std::vector<Tensor> inputs;
    std::vector<Slot> slots;
  };

  void lay_out(const Case& planned, const Knobs& knobs, const Stage& stage);
  const ChunkMemory& memory(int chunk) const { return chunks_[static_cast<size_t>(chunk)]; }
  const Slot& slot(int chunk, int64_t micro_batch) const;

  Arena arena_;
  int64_t losses_ = 0;  // that go with a stream
  Activations shared_;
  std::vector<ChunkMemory> chunks_;
  std::vector<Tensor> d_residual_;
};

}  // namespace dettax
