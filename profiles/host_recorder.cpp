#include "profiles/host_recorder.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "profiles/classify.h"

namespace dettax {

int64_t realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

HostLane::HostLane(std::string thread_name, size_t spans, int64_t (*now_ns)())
    : thread_name_(std::move(thread_name)), now_ns_(now_ns), records_(spans) {}

HostLane::Record* HostLane::next_record() {
  if (used_ == records_.size()) {
    ++lost_;
    return nullptr;
  }
  return &records_[used_++];
}

void HostLane::close(int64_t now_ns) {
  if (open_) records_[used_ - 1].end_ns = now_ns;
  open_ = false;
}

void HostLane::begin(const Record& record) {
  close(record.entered_ns);
  Record* slot = next_record();
  if (slot == nullptr) return;
  *slot = record;
  open_ = true;
  slot->start_ns = now_ns_();
}

void HostLane::enter(uint32_t path, Category category, int64_t bytes) {
  begin({now_ns_(), 0, 0, path, category, true, {.bytes = bytes}});
}

void HostLane::resume(uint32_t path, Category category, int64_t since_ns) {
  begin({since_ns, 0, 0, path, category, false, {}});
}

int64_t HostLane::leave() {
  const int64_t now = now_ns_();
  close(now);
  return now;
}

void HostLane::add(uint32_t path, Category category, int64_t start_ns, int64_t end_ns,
                   int64_t bytes) {
  insert({start_ns, start_ns, end_ns, path, category, true, {.bytes = bytes}});
}

void HostLane::add_part(uint32_t path, const Part& part, int64_t start_ns, int64_t end_ns,
                        bool occurrence) {
  insert({start_ns, start_ns, end_ns, path, Category::communication, occurrence, part});
}

void HostLane::insert(const Record& added) {
  if (!open_) {
    if (Record* slot = next_record()) *slot = added;
    return;
  }
  // The open record stays the last one.
  if (next_record() == nullptr) return;
  records_[used_ - 1] = records_[used_ - 2];
  records_[used_ - 2] = added;
}

HostRecorder::HostRecorder(const Settings& settings)
    : steps_max_(settings.steps), now_ns_(settings.now_ns) {
  lanes_.reserve(settings.threads.size());
  for (const std::string& thread : settings.threads)
    lanes_.emplace_back(thread, settings.spans_per_thread, settings.now_ns);
  steps_.reserve(steps_max_);
}

void HostRecorder::begin_step(int64_t index) {
  in_step_ = steps_.size() < steps_max_;
  if (!in_step_) {
    ++lost_steps_;
    return;
  }
  const int64_t now = now_ns_();
  steps_.push_back({index, now, now});
}

void HostRecorder::end_step() {
  if (in_step_) steps_.back().end_ns = now_ns_();
  in_step_ = false;
}

void HostRecorder::move_lane(HostLane& lane, uint32_t stream, Trace& trace) const {
  lane.close(now_ns_());
  const uint32_t recording = trace.names.intern("recording");
  std::vector<uint32_t> count(lane.texts_.size());
  auto step = steps_.begin();
  for (size_t i = 0; i < lane.used_; ++i) {
    const HostLane::Record& record = lane.records_[i];
    for (; step != steps_.end() && step->start_ns <= record.start_ns; ++step)
      std::fill(count.begin(), count.end(), 0);
    const std::string& path = lane.texts_[record.path];
    Span span{.start_ns = record.start_ns, .end_ns = record.end_ns, .bytes = record.part.bytes};
    span.name = trace.names.intern(path.substr(path.rfind('/') + 1));
    span.path = trace.paths.intern(path);
    uint32_t& occurrences = count[record.path];
    if (record.occurrence) ++occurrences;
    span.ordinal = occurrences > 0 ? occurrences - 1 : 0;
    span.stream = stream;
    span.category = record.category;
    if (const HostLane::Part& part = record.part; part.group != 0) {
      span.collective = static_cast<uint32_t>(trace.collectives.size());
      const std::string& told = lane.texts_[part.name];
      const std::string_view kind = collective_kind(told);
      trace.collectives.push_back({trace.names.intern(kind.empty() ? told : kind),
                                   trace.names.intern(lane.texts_[part.group]), part.sequence,
                                   part.group_size});
    }
    trace.spans.push_back(span);
    if (record.entered_ns < record.start_ns)
      trace.spans.push_back({.start_ns = record.entered_ns,
                             .end_ns = record.start_ns,
                             .name = recording,
                             .stream = stream,
                             .category = Category::profiler});
  }
  trace.losses.dropped += lane.lost_;
  lane.used_ = 0;
  lane.lost_ = 0;
}

Trace HostRecorder::take() {
  end_step();
  Trace trace;
  trace.kind = TraceKind::host;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    trace.streams.push_back({"rank", lanes_[i].thread_name_, false, 0, 0});
    move_lane(lanes_[i], static_cast<uint32_t>(i), trace);
  }
  trace.steps = steps_;
  trace.losses.dropped += lost_steps_;
  if (trace.losses.dropped > 0) trace.losses.told = "the recorder was full";
  trace.events = static_cast<int64_t>(trace.spans.size());
  sort_spans(trace);
  steps_.clear();
  lost_steps_ = 0;
  return trace;
}

}  // namespace dettax
