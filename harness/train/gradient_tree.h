#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/stage.h"
#include "harness/train/step_context.h"

namespace dettax {

// Neighbouring elements of the gradient storage.
struct GradientRange {
  int64_t begin = 0, end = 0;
  friend bool operator==(const GradientRange&, const GradientRange&) = default;
};
// The gradients that the backward pass through a chunk of layers makes.
std::vector<GradientRange> gradients_of(const Chunk& chunk, const ModelLayout& layout,
                                        const ParameterStore& parameters);

// How the gradients of a rank's micro-batches are added. In place: each onto the sum so far. As a tree: each into a copy of its own,
// and copies merged like the digits of a binary counter, ((0+1)+(2+3))+...: with micro-batches of a power of two of samples that
// continues the tree over samples inside the ops, so that the bits do not depend on the size of a micro-batch.
struct GradientTree {
  bool tree = false;
  int64_t micro_batches = 1;

  // Copies of the gradients alive at once: 1 in place, else 1 + the levels of the tree.
  int copies() const;
  // The copy that micro-batch i writes, and whether it adds to it.
  int copy_for(int64_t micro_batch) const;
  bool accumulates(int64_t micro_batch) const { return !tree && micro_batch > 0; }
  // Merges, of these gradients, what micro-batch i, now complete, makes mergeable; after the last one all is in copy 0.
  void merge(StepContext& c, int64_t micro_batch, const std::vector<GradientRange>& ranges) const;
};

}  // namespace dettax
