#include "harness/train/stage.h"

namespace dettax {

Stage make_stage(const Case& planned, const MeshPosition& position) {
  const Layout& layout = planned.layout;
  Stage stage;
  stage.actions = pipeline_schedule(layout, position.pp, planned.micro_batches());
  const int64_t layers = planned.model.layers / (int64_t{layout.pp} * layout.vp);
  for (int i = 0; i < layout.vp; ++i) {
    Chunk chunk;
    chunk.layers = layers;
    chunk.first_layer = (int64_t{i} * layout.pp + position.pp) * layers;
    chunk.embedding = chunk.first_layer == 0;
    chunk.head = chunk.end_layer() == planned.model.layers;
    chunk.slots = micro_batches_in_flight(stage.actions, i);
    stage.chunks.push_back(chunk);
  }
  return stage;
}

}  // namespace dettax
