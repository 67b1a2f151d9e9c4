#include "harness/train/pipeline_exchange.h"

namespace dettax {

PipelineExchange::PipelineExchange(const Mesh& mesh, const Stage& stage,
                                   const StageActivations& activations)
    : stage_(stage), activations_(activations) {
  int64_t gradients = 0;
  for (const PipelineAction& action : stage.actions) {
    gradients_before_.push_back(gradients);
    gradients += action.backward ? 1 : 0;
  }
  if (mesh.layout().pp == 1) return;
  size_t places = 0;
  for (const Chunk& chunk : stage.chunks) {
    first_place_.push_back(places);
    places += static_cast<size_t>(chunk.slots);
  }
  const int stages = mesh.layout().pp;
  const int next = (mesh.position().pp + 1) % stages;
  const int before = (mesh.position().pp + stages - 1) % stages;
  auto& [forward, backward] = directions_;
  forward.group = &mesh.pipeline();
  forward.from = backward.to = before;
  forward.to = backward.from = next;
  forward.sent.resize(places);
  backward.group = &mesh.pipeline_backward();
  backward.sent.resize(static_cast<size_t>(StageActivations::kGradientsInAPipeline));
  for (size_t i = 0; i < stage.actions.size(); ++i) {
    if (receives(stage.actions[i])) direction_of(i).receiving.push_back(i);
  }
}

bool PipelineExchange::receives(const PipelineAction& action) const {
  const Chunk& chunk = stage_.chunk_of(action);
  return action.backward ? !chunk.head : !chunk.embedding;
}

bool PipelineExchange::sends(const PipelineAction& action) const {
  const Chunk& chunk = stage_.chunk_of(action);
  return action.backward ? !chunk.embedding : !chunk.head;
}

size_t PipelineExchange::place_of(size_t action) const {
  const PipelineAction& what = stage_.actions[action];
  if (what.backward) {
    return static_cast<size_t>(gradients_before_[action]) % directions_[1].sent.size();
  }
  return first_place_[static_cast<size_t>(what.chunk)] +
         static_cast<size_t>(what.micro_batch % stage_.chunk_of(what).slots);
}

Tensor PipelineExchange::input_of(size_t action) const {
  const PipelineAction& what = stage_.actions[action];
  return what.backward ? activations_.d_residual(gradients_before_[action])
                       : activations_.input(what.chunk, what.micro_batch);
}

Tensor PipelineExchange::result_of(size_t action) const {
  const PipelineAction& what = stage_.actions[action];
  return what.backward ? activations_.d_residual(gradients_before_[action])
                       : activations_.output(what.chunk, what.micro_batch);
}

int64_t PipelineExchange::message_bytes(size_t action, const Tensor& message) const {
  return message.bytes() + (stage_.actions[action].backward ? 0 : activations_.losses_bytes());
}

void PipelineExchange::ask(Direction& direction) {
  const size_t action = direction.receiving[direction.next++];
  const Tensor to = input_of(action);
  direction.arriving =
      direction.group->start_receive(to.data, message_bytes(action, to), direction.from);
  direction.asked = true;
}

// Whether the memory that the next message goes to is free while `action` is computed. A chunk has one input more than slots, so that
// of streams always is; gradients take turns.
bool PipelineExchange::may_ask_ahead(const Direction& direction, size_t action) {
  if (direction.next == direction.receiving.size()) return false;
  const size_t next = direction.receiving[direction.next];
  if (!stage_.actions[next].backward) return true;
  const int64_t turns = gradients_before_[next] - gradients_before_[action];
  return turns < StageActivations::kGradientsInAPipeline && direction.sent[place_of(next)].done();
}

void PipelineExchange::begin(StepContext& c, size_t action) {
  const PipelineAction& what = stage_.actions[action];
  Direction& direction = direction_of(action);
  if (direction.group == nullptr) return;
  const Chunk& chunk = stage_.chunk_of(what);
  if (sends(what) || what.backward) {
    c.begin(Op::pipeline_send);
    direction.sent[place_of(action)].wait();
  }
  if (!receives(what)) return;
  c.layer = what.backward ? chunk.last_layer() : chunk.first_layer;
  c.begin(Op::pipeline_receive);
  if (!direction.asked) ask(direction);
  direction.arriving.wait();
  direction.asked = false;
  c.show(what.backward ? "dy" : "x", input_of(action));
  if (!what.backward) c.show("losses", c.buffers.balance_before);
  c.layer = kNoLayer;
  if (c.knobs.overlap && may_ask_ahead(direction, action)) ask(direction);
}

void PipelineExchange::end(StepContext& c, size_t action) {
  const PipelineAction& what = stage_.actions[action];
  Direction& direction = direction_of(action);
  if (direction.group == nullptr || !sends(what)) return;
  const Chunk& chunk = stage_.chunk_of(what);
  c.layer = what.backward ? chunk.first_layer : chunk.last_layer();
  c.begin(Op::pipeline_send);
  c.layer = kNoLayer;
  c.device.synchronize();
  const Tensor result = result_of(action);
  direction.sent[place_of(action)] =
      direction.group->start_send(result.data, message_bytes(action, result), direction.to);
}

void PipelineExchange::finish() {
  for (Direction& direction : directions_) {
    for (Request& request : direction.sent) request.wait();
    direction.next = 0;
  }
}

}  // namespace dettax
