#include "harness/launch/step_recorder.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/launch/machine.h"

namespace dettax {
namespace {

std::vector<std::string> lane_names(int rank, const StepSize& size) {
  const std::string own = "rank " + std::to_string(rank);
  std::vector<std::string> names = {own};
  for (const std::string& group : size.groups_beside) names.push_back(own + ", " + group);
  return names;
}

}  // namespace

void StepSize::on_communicated(const Communication& communication) {
  spans += 2;  // and the rest of its op
  if (communication.began_ns_ago > 0) groups_beside.emplace(communication.group);
}

uint32_t StepRecorder::Lane::number(std::string_view text) {
  auto place = known.find(text.data());
  if (place == known.end()) place = known.emplace(text.data(), lane.text_of(text)).first;
  return place->second;
}

HostLane::Part StepRecorder::Lane::part(const Communication& communication) {
  const std::string_view name =
      is_message(communication.kind) ? kMessage : operation_name(communication.kind);
  return {number(name), number(communication.group), communication.sequence,
          communication.group_size, communication.payload_bytes};
}

StepRecorder::StepRecorder(int rank, int world_size, size_t steps, const StepSize& size)
    : rank_(rank),
      world_size_(world_size),
      recorder_({.threads = lane_names(rank, size),
                 .spans_per_thread = steps * size.spans,
                 .steps = steps}),
      own_{recorder_.lane(0)} {
  size_t lane = 0;
  for (const std::string& group : size.groups_beside)
    beside_.emplace(group, Lane{recorder_.lane(++lane)});
}

void StepRecorder::begin_step() {
  recorder_.begin_step(next_step_++);
  in_step_ = true;
}

void StepRecorder::end_step() {
  recorder_.end_step();
  in_step_ = false;
}

void StepRecorder::on_op(const char* path, OpKind kind) {
  path_ = path;
  // An op that communicates works for itself but for its operations, which tell of themselves.
  category_ = kind == OpKind::fill ? Category::fill : Category::compute;
  own_.lane.enter(own_.number(path), category_);
}

void StepRecorder::on_idle() {
  own_.lane.leave();
  path_ = "";
}

// Between steps ranks meet too, which is no part of any.
void StepRecorder::on_wait() {
  if (in_step_) waiting_since_ns_ = own_.lane.leave();
}

void StepRecorder::on_communicated(const Communication& communication) {
  if (!in_step_) return;
  const int64_t now = own_.lane.time_ns();
  const uint32_t path = own_.number(path_);
  int64_t since_ns = waiting_since_ns_;
  if (communication.began_ns_ago > 0) {
    const auto at = beside_.find(communication.group);
    if (at == beside_.end())
      throw Error(ErrorKind::internal,
                  "no lane to record what " + std::string(communication.group) + " does beside it");
    Lane& beside = at->second;
    beside.lane.add_part(beside.number(path_), beside.part(communication),
                         now - communication.began_ns_ago, now - communication.ended_ns_ago, true);
    // What is left for this thread is to hear of its end.
    since_ns = std::max(since_ns, now - communication.ended_ns_ago);
  }
  own_.lane.add_part(path, own_.part(communication), since_ns, now, false);
  own_.lane.resume(path, category_, now);
}

void StepRecorder::on_handed_over(const Communication& message) {
  if (!in_step_) return;
  const int64_t now = own_.lane.time_ns();
  own_.lane.add_part(own_.number(path_), own_.part(message), now, now, false);
}

Trace StepRecorder::take() {
  Trace trace = recorder_.take();
  trace.rank = rank_;
  trace.world_size = world_size_;
  trace.host = node_name();
  return trace;
}

}  // namespace dettax
