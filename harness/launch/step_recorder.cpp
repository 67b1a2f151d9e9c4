#include "harness/launch/step_recorder.h"

#include "harness/launch/machine.h"

namespace dettax {
namespace {

Category category_of(OpKind kind) {
  switch (kind) {
    case OpKind::communication:
      return Category::communication;
    case OpKind::fill:
      return Category::fill;
    case OpKind::compute:
      break;
  }
  return Category::compute;
}

}  // namespace

StepRecorder::StepRecorder(int rank, int world_size, size_t steps, size_t ops_per_step)
    : rank_(rank),
      world_size_(world_size),
      recorder_({.threads = {"rank " + std::to_string(rank)},
                 .spans_per_thread = steps * ops_per_step,
                 .steps = steps}),
      lane_(recorder_.lane(0)) {}

void StepRecorder::on_op(const char* path, OpKind kind) {
  auto place = places_.find(path);
  if (place == places_.end()) place = places_.emplace(path, lane_.path(path)).first;
  lane_.enter(place->second, category_of(kind));
}

Trace StepRecorder::take() {
  Trace trace = recorder_.take();
  trace.rank = rank_;
  trace.world_size = world_size_;
  trace.host = node_name();
  return trace;
}

}  // namespace dettax
