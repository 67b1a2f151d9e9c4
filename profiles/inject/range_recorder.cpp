#include "profiles/inject/range_recorder.h"

#include <utility>

#include <unistd.h>

#include "profiles/step_names.h"

namespace dettax {
namespace {

constexpr size_t kRecordsMax = size_t{1} << 21U;  // between two writes

}  // namespace

RangeRecorder::RangeRecorder(InjectionWindow window, std::string step_name, int64_t (*now_ns)())
    : window_(std::move(window)), step_name_(std::move(step_name)), now_ns_(now_ns) {}

// One recorder a process, which outlives its threads.
RangeRecorder::Thread& RangeRecorder::this_thread() {
  thread_local Thread* own = nullptr;
  if (own == nullptr) {
    threads_.push_back(std::make_unique<Thread>());
    own = threads_.back().get();
    own->number = static_cast<uint32_t>(gettid());
  }
  return *own;
}

uint32_t RangeRecorder::text(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  return names_.intern(text);
}

RangeRecorder::Open RangeRecorder::opened(uint32_t domain, uint32_t name) {
  Open range{domain, name, now_ns_(), -1};
  if (domain == 0 && !step_name_.empty() && names_[name] == step_name_)
    range.counted_step = steps_counted_++;
  return range;
}

int64_t RangeRecorder::step_of(const Open& range) const {
  if (range.domain != 0) return -1;
  if (range.counted_step >= 0) return range.counted_step;
  return step_index_of(names_[range.name], step_name_).value_or(-1);
}

RangeRecorder::Cue RangeRecorder::cue_of_begin(const Open& range) {
  if (begun_) return Cue::none;
  bool begins = false;
  if (window_.kind == InjectionWindow::Kind::range) {
    begins = names_[range.name] == window_.name;
  } else if (window_.kind == InjectionWindow::Kind::steps) {
    const int64_t step = step_of(range);
    begins = step >= window_.first;
    if (step == window_.first - 1 && !std::exchange(ready_, true)) return Cue::ready;
  }
  begun_ = begins;
  return begins ? Cue::begin : Cue::none;
}

RangeRecorder::Cue RangeRecorder::cue_of_end(const Open& range) {
  if (!begun_ || ended_) return Cue::none;
  if (window_.kind == InjectionWindow::Kind::range) ended_ = names_[range.name] == window_.name;
  if (window_.kind == InjectionWindow::Kind::steps) ended_ = step_of(range) > window_.last;
  return ended_ ? Cue::end : Cue::none;
}

void RangeRecorder::add(const Open& range, uint32_t thread, int64_t end_ns, bool nests) {
  if (!recording_) return;
  if (records_.size() >= kRecordsMax) {
    ++lost_;
    return;
  }
  DeviceRecord record;
  record.kind = range.counted_step >= 0 ? RecordKind::step : RecordKind::range;
  record.id = range.counted_step >= 0 ? static_cast<uint64_t>(range.counted_step) : 0;
  record.name = range.name;
  record.domain = range.domain;
  record.start_ns = range.start_ns;
  record.end_ns = end_ns;
  record.thread = thread;
  record.detail = nests ? 0 : 1;
  records_.push_back(record);
}

RangeRecorder::Cue RangeRecorder::push(uint32_t domain, uint32_t name, int* depth) {
  const std::scoped_lock lock(mutex_);
  std::vector<Open>& open = this_thread().open;
  *depth = static_cast<int>(open.size());
  open.push_back(opened(domain, name));
  return cue_of_begin(open.back());
}

RangeRecorder::Cue RangeRecorder::pop(uint32_t domain, int* depth) {
  const std::scoped_lock lock(mutex_);
  Thread& thread = this_thread();
  size_t at = thread.open.size();
  while (at > 0 && thread.open[at - 1].domain != domain) --at;
  *depth = static_cast<int>(at) - 1;
  if (at == 0) return Cue::none;
  const Open range = thread.open[at - 1];
  thread.open.erase(thread.open.begin() + static_cast<std::ptrdiff_t>(at) - 1);
  add(range, thread.number, now_ns_(), true);
  return cue_of_end(range);
}

uint64_t RangeRecorder::start(uint32_t domain, uint32_t name, Cue* cue) {
  const std::scoped_lock lock(mutex_);
  const uint64_t id = next_id_++;
  const auto at = started_.emplace(id, std::pair(opened(domain, name), this_thread().number)).first;
  *cue = cue_of_begin(at->second.first);
  return id;
}

RangeRecorder::Cue RangeRecorder::end(uint64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto found = started_.find(id);
  if (found == started_.end()) return Cue::none;
  const auto [range, thread] = found->second;
  started_.erase(found);
  add(range, thread, now_ns_(), false);
  return cue_of_end(range);
}

void RangeRecorder::record(bool on) {
  const std::scoped_lock lock(mutex_);
  recording_ = on;
}

void RangeRecorder::close_open(int64_t end_ns) {
  const std::scoped_lock lock(mutex_);
  for (const auto& thread : threads_) {
    for (const Open& range : thread->open) add(range, thread->number, end_ns, true);
  }
  recording_ = false;
}

std::vector<DeviceRecord> RangeRecorder::take(Capture& capture) {
  const std::scoped_lock lock(mutex_);
  std::vector<DeviceRecord> records = std::exchange(records_, {});
  for (DeviceRecord& record : records) {
    record.name = capture.names.intern(names_[record.name]);
    record.domain = capture.names.intern(names_[record.domain]);
  }
  capture.losses.lost_ranges = lost_;
  return records;
}

}  // namespace dettax
