#include "profiles/capture/trace_of_capture.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <cxxabi.h>
#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"
#include "profiles/classify.h"
#include "profiles/interval_set.h"
#include "profiles/keys.h"
#include "profiles/step_names.h"

namespace dettax {
namespace {

bool is_call(RecordKind kind) {
  return kind == RecordKind::call || kind == RecordKind::driver_call;
}
bool is_device_work(RecordKind kind) { return kind <= RecordKind::memset; }

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

std::string_view name_of_wait(uint8_t detail) {
  static constexpr std::array<std::string_view, 5> kNames{
      "Synchronize", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return kNames[detail < kNames.size() ? detail : 0];
}

class Builder {
 public:
  Builder(const Capture& capture, const std::string& source, const ImportOptions& options)
      : capture_(capture), steps_(options.step_name), names_(capture.names.size(), kNotLookedUp) {
    trace_.source = source;
    trace_.host = capture.host;
    trace_.rank = capture.rank;
    trace_.world_size = capture.world_size;
    trace_.notes = capture.notes;
  }

  Trace build() {
    trace_.events = static_cast<int64_t>(capture_.records.size());
    find_calls();
    // Steps by number are what was asked for as it was recorded; names are a guess beside them.
    steps_are_told_ =
        std::any_of(capture_.records.begin(), capture_.records.end(),
                    [](const auto& record) { return record.kind == RecordKind::step; });
    for (const DeviceRecord& record : capture_.records) add(record);
    if (!steps_are_told_) steps_.require_found(trace_.source);
    sort_spans(trace_);
    add_losses();
    assign_paths(trace_);
    assign_external_paths();
    name_collectives();
    return std::move(trace_);
  }

 private:
  static constexpr uint32_t kNotLookedUp = static_cast<uint32_t>(-1);

  uint32_t name(uint32_t number) {
    uint32_t& known = names_[number];
    if (known == kNotLookedUp)
      known = trace_.names.intern(valid_utf8(demangled(capture_.names[number])));
    return known;
  }

  // --- Calls -----------------------------------------------------------------------------------

  bool after_window(const DeviceRecord& record) const {
    return capture_.end_ns != 0 && record.start_ns >= capture_.end_ns;
  }

  // Which calls are left out: those behind the window, and those of the driver within one of the runtime, whose work is then the latter's.
  void find_calls() {
    std::vector<const DeviceRecord*> calls;
    for (const DeviceRecord& record : capture_.records) {
      if (!is_call(record.kind)) continue;
      if (after_window(record)) {
        behind_.insert(record.correlation);
      } else {
        calls.push_back(&record);
      }
    }
    std::stable_sort(calls.begin(), calls.end(), [](const auto* a, const auto* b) {
      return std::tie(a->thread, a->start_ns, b->end_ns) <
             std::tie(b->thread, b->start_ns, a->end_ns);
    });
    const DeviceRecord* outer = nullptr;
    for (const DeviceRecord* call : calls) {
      const bool within = outer != nullptr && call->thread == outer->thread &&
                          call->kind == RecordKind::driver_call && call->end_ns <= outer->end_ns;
      if (within) {
        outer_[call->correlation] = outer->correlation;
        continue;
      }
      if (call->kind == RecordKind::call) outer = call;
      calls_[call->correlation] = call;
    }
  }

  uint64_t correlation_of(const DeviceRecord& record) const {
    const auto found = outer_.find(record.correlation);
    return found == outer_.end() ? record.correlation : found->second;
  }

  // --- Rows ------------------------------------------------------------------------------------

  uint32_t thread_stream(uint32_t thread) {
    const auto number = static_cast<uint32_t>(trace_.streams.size());
    const auto [at, fresh] = threads_.try_emplace(thread, number);
    if (fresh)
      trace_.streams.push_back(
          {std::to_string(capture_.process), std::to_string(thread), false, 0, 0});
    return at->second;
  }

  // Streams are numbered within a context.
  uint32_t device_stream(const DeviceRecord& record) {
    const auto number = static_cast<uint32_t>(trace_.streams.size());
    const auto [at, fresh] =
        device_streams_.try_emplace({record.device, record.context, record.stream}, number);
    if (!fresh) return at->second;
    trace_.streams.push_back({std::to_string(record.device), std::to_string(record.stream), true,
                              record.device, record.stream});
    return number;
  }

  // --- Records ---------------------------------------------------------------------------------

  void add(const DeviceRecord& record) {
    if (is_device_work(record.kind)) return add_work(record);
    if (record.end_ns < record.start_ns && record.kind != RecordKind::external &&
        record.kind != RecordKind::event) {
      ++backwards_;
      return;
    }
    const bool timed = record.kind != RecordKind::external && record.kind != RecordKind::event;
    if (timed && before_window(record)) return;
    switch (record.kind) {
      case RecordKind::call:
      case RecordKind::driver_call:
        return add_call(record);
      case RecordKind::synchronize:
        return add_wait(record);
      case RecordKind::overhead:
        return add_host(record, Category::profiler, name(record.name), 0);
      case RecordKind::external:
        external_.emplace(correlation_of(record), record.id);
        return;
      case RecordKind::range:
        return add_range(record);
      case RecordKind::step:
        if (!after_window(record)) add_step(static_cast<int64_t>(record.id), record);
        return;
      default:
        return;  // events only tell what waits wait for
    }
  }

  bool before_window(const DeviceRecord& record) const {
    return record.end_ns <= capture_.start_ns;
  }

  void add_work(const DeviceRecord& record) {
    if (behind_.contains(record.correlation)) return;
    if (record.end_ns == 0) {  // no room on the device, or it still ran at the last flush
      ++trace_.losses.untimed;
      return;
    }
    if (record.end_ns < record.start_ns) {
      ++backwards_;
      return;
    }
    if (before_window(record)) return;
    Span span{.start_ns = record.start_ns,
              .end_ns = record.end_ns,
              .bytes = static_cast<int64_t>(record.bytes),
              .correlation = correlation_of(record)};
    span.name = name(record.name);
    span.stream = device_stream(record);
    span.category = record.kind == RecordKind::copy ? Category::copy
                    : record.kind == RecordKind::memset
                        ? Category::memset
                        : category_of_kernel(trace_.names[span.name]);
    trace_.spans.push_back(span);
  }

  void add_host(const DeviceRecord& record, Category category, uint32_t named,
                uint64_t correlation) {
    trace_.spans.push_back({.start_ns = record.start_ns,
                            .end_ns = record.end_ns,
                            .correlation = correlation,
                            .name = named,
                            .stream = thread_stream(record.thread),
                            .category = category});
  }

  void add_call(const DeviceRecord& record) {
    if (after_window(record) || outer_.contains(record.correlation)) return;
    const uint32_t named = name(record.name);
    add_host(record, category_of_call(trace_.names[named]), named, record.correlation);
  }

  // A wait that its call's name does not tell: a copy that blocks, a free that waits for the device.
  void add_wait(const DeviceRecord& record) {
    if (record.detail == static_cast<uint8_t>(SyncKind::stream_wait)) return;  // the device waits
    const auto call = calls_.find(static_cast<uint32_t>(correlation_of(record)));
    if (call == calls_.end()) return;
    const uint32_t called = name(call->second->name);
    if (category_of_call(trace_.names[called]) == Category::synchronize) return;
    DeviceRecord wait = record;
    wait.thread = call->second->thread;
    add_host(wait, Category::synchronize, trace_.names.intern(name_of_wait(record.detail)), 0);
  }

  void add_step(int64_t index, const DeviceRecord& record) {
    trace_.steps.push_back({index, record.start_ns, record.end_ns});
  }

  void add_range(const DeviceRecord& record) {
    if (after_window(record)) return;
    const uint32_t named = name(record.name);
    if (record.domain == 0) {
      const auto step = steps_.index_of(trace_.names[named]);
      if (step && !steps_are_told_) return add_step(*step, record);
    }
    if (record.detail != 0) return;  // need not nest, so that it cannot be part of a path
    add_host(record, record.domain == 0 ? Category::annotation : Category::op, named, 0);
  }

  // --- What is missing -------------------------------------------------------------------------

  void add_loss(int64_t records, const std::string& told) {
    if (records == 0) return;
    trace_.losses.dropped += records;
    trace_.losses.told += (trace_.losses.told.empty() ? "" : "; ") + told;
  }

  void add_losses() {
    const CaptureLosses& losses = capture_.losses;
    add_loss(losses.dropped, "CUPTI dropped " + format_things(losses.dropped, "record"));
    add_loss(losses.refused_buffers,
             "no buffer was free " + format_things(losses.refused_buffers, "time"));
    add_loss(losses.broken_buffers,
             format_things(losses.broken_buffers, "buffer") + " could not be decoded to the end");
    add_loss(losses.lost_ranges, "no room for " + format_things(losses.lost_ranges, "range"));
    add_loss(losses.faults.empty() ? 0 : 1, losses.faults);
    add_loss(backwards_, format_things(backwards_, "record") + " with an end before the begin");
    check_busy();
    if (losses.unknown > 0)
      trace_.notes.push_back(format_things(losses.unknown, "record") +
                             " of kinds that were not asked for");
    if (!capture_.unfinished.empty()) {
      trace_.losses.cut_off = true;
      trace_.notes.push_back(capture_.unfinished);
    }
  }

  // Nothing can work for longer than it was watched.
  void check_busy() {
    if (capture_.flushed_ns == 0) return;
    IntervalSet busy;
    for (const Span& span : trace_.spans) {
      if (is_work(span.category)) busy.add(span.start_ns, span.end_ns);
    }
    const int64_t watched_ns = capture_.flushed_ns - capture_.start_ns;
    if (busy.length() > watched_ns)
      add_loss(1, fmt::format("the device was busy for {} ns in a window of {} ns", busy.length(),
                              watched_ns));
  }

  // --- Where -----------------------------------------------------------------------------------

  void assign_external_paths() {
    if (external_.empty()) return;
    int64_t nameless = 0;
    for (Span& span : trace_.spans) {
      const auto found = span.correlation == 0 ? external_.end() : external_.find(span.correlation);
      if (found == external_.end()) continue;
      const uint32_t path = path_of_external(found->second);
      if (path == 0 || path >= capture_.names.size()) {
        ++nameless;
        continue;
      }
      span.path = trace_.paths.intern(valid_utf8(capture_.names[path]));
      span.ordinal = ordinal_of_external(found->second);
    }
    if (nameless > 0)
      trace_.notes.push_back(format_things(nameless, "span") +
                             " under a path that was never named");
  }

  // Neither kernels nor ranges tell the group of a collective, or its number.
  void name_collectives() {
    for (Span& span : trace_.spans) {
      if (span.category != Category::communication) continue;
      const std::string& path = trace_.paths[span.path];
      const std::string_view last = std::string_view(path).substr(path.rfind('/') + 1);
      std::string_view kind = is_communication_op(last) ? collective_kind(last) : "";
      if (kind.empty()) kind = collective_kind(trace_.names[span.name]);
      if (kind.empty()) continue;
      const auto number = static_cast<uint32_t>(trace_.collectives.size());
      const auto [at, fresh] = collectives_.try_emplace(std::string(kind), number);
      if (fresh) trace_.collectives.push_back({trace_.names.intern(kind), 0, -1, 0});
      span.collective = at->second;
    }
  }

  const Capture& capture_;
  StepFinder steps_;
  Trace trace_;
  std::vector<uint32_t> names_;  // of the capture -> of the trace
  std::unordered_map<uint32_t, const DeviceRecord*> calls_;
  std::unordered_map<uint32_t, uint32_t> outer_;  // call of the driver -> that of the runtime
  std::unordered_set<uint32_t> behind_;           // calls behind the window
  std::unordered_map<uint64_t, uint64_t> external_;
  std::map<uint32_t, uint32_t> threads_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> device_streams_;
  std::unordered_map<std::string, uint32_t> collectives_;
  bool steps_are_told_ = false;
  int64_t backwards_ = 0;
};

}  // namespace

Trace trace_of_capture(const Capture& capture, const std::string& source,
                       const ImportOptions& options) {
  return Builder(capture, source, options).build();
}

}  // namespace dettax
