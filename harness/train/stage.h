#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/mesh.h"
#include "harness/plan/case.h"
#include "harness/plan/pipeline_schedule.h"

namespace dettax {

// Consecutive layers that a pipeline stage holds: a stage has vp such chunks, one that is no pipeline has the whole model as one.
struct Chunk {
  int64_t first_layer = 0, layers = 0;
  bool embedding =
      false;          // begins with the token table; others begin with what the stage before sends
  bool head = false;  // ends with the loss; others end with sending on
  int64_t slots = 1;  // micro-batches in flight, at most

  int64_t end_layer() const { return first_layer + layers; }
  int64_t last_layer() const { return end_layer() - 1; }
};

// What a rank does in a step before gradients are reduced.
struct Stage {
  std::vector<Chunk> chunks;
  std::vector<PipelineAction> actions;

  int64_t layers() const { return std::ssize(chunks) * chunks.front().layers; }
  bool has_head() const { return chunks.back().head; }
  const Chunk& chunk_of(const PipelineAction& action) const {
    return chunks[static_cast<size_t>(action.chunk)];
  }
};
Stage make_stage(const Case& planned, const MeshPosition& position);

}  // namespace dettax
