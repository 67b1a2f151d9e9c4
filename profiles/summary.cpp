#include "profiles/summary.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "profiles/interval_set.h"
#include "profiles/keys.h"
#include "profiles/steps.h"

namespace dettax {
namespace {

std::string time_text(int64_t ns) { return format_seconds(1e-9 * static_cast<double>(ns)); }

void count_launches(const Trace& trace, TraceSummary& summary) {
  std::vector<bool> answered(trace.spans.size());
  for (const int64_t call : launches_of_work(trace)) {
    if (call >= 0) answered[static_cast<size_t>(call)] = true;
  }
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    if (!starts_kernels(trace, trace.spans[i])) continue;
    ++summary.launches;
    summary.answered += answered[i] ? 1 : 0;
  }
}

}  // namespace

TraceSummary summarize(const Trace& trace) {
  TraceSummary summary;
  summary.untimed = trace.losses.untimed;
  IntervalSet busy;
  std::set<int64_t> devices;
  std::vector<IntervalSet> streams(trace.streams.size());
  std::vector<int64_t> stream_sums(trace.streams.size());
  for (const Span& span : trace.spans) {
    if (!is_work(span.category)) continue;
    if (summary.work == 0) summary.start_ns = span.start_ns;
    ++summary.work;
    devices.insert(trace.streams[span.stream].device_id);
    summary.communications += span.category == Category::communication ? 1 : 0;
    summary.end_ns = std::max(summary.end_ns, span.end_ns);
    summary.busy_sum_ns += span.end_ns - span.start_ns;
    busy.add(span.start_ns, span.end_ns);
    streams[span.stream].add(span.start_ns, span.end_ns);
    stream_sums[span.stream] += span.end_ns - span.start_ns;
  }
  summary.busy_ns = busy.length();
  summary.devices = std::ssize(devices);
  for (size_t i = 0; i < streams.size(); ++i)
    summary.same_stream_overlap_ns += stream_sums[i] - streams[i].length();
  count_launches(trace, summary);
  return summary;
}

std::vector<std::string> notes_of(const Trace& trace, const TraceSummary& summary) {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(trace.source + ": " + text); };
  if (trace.losses.damaged > 0)
    note(std::to_string(trace.events) + " of " +
         std::to_string(trace.events + trace.losses.damaged) +
         " events could be read; the file is damaged");
  if (summary.answered < summary.launches)
    note(std::to_string(summary.answered) + " of " + std::to_string(summary.launches) +
         " launches left work on the device");
  if (summary.untimed > 0) note(format_things(summary.untimed, "kernel") + " without times");
  if (summary.same_stream_overlap_ns > 0)
    note(time_text(summary.same_stream_overlap_ns) + " overlap on one stream");
  if (trace.whole_microseconds)
    note("times are whole microseconds: a duration of 0 is one under 1 us");
  if (trace.world_size > 1 && summary.communications == 0)
    note("is of " + std::to_string(trace.world_size) +
         " ranks, and no work in it is known to communicate");
  if (summary.devices > 1)
    note("holds work of " + std::to_string(summary.devices) +
         " devices: time that any of them works counts as worked");
  for (const std::string& told : trace.notes) note(told);
  return notes;
}

void refuse_if_unusable(const Trace& trace, const TraceSummary& summary) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::infrastructure,
                trace.source + ": " + why + "; nothing can be attributed");
  };
  if (trace.losses.dropped > 0)
    refuse("the profiler lost " + format_things(trace.losses.dropped, "record") +
           (trace.losses.told.empty() ? "" : " (" + trace.losses.told + ")"));
  if (summary.work == 0)
    refuse(summary.launches > 0 ? "holds " + format_things(summary.launches, "launch") +
                                      " and no kernel: the profiler could not see the device"
                                : "holds no kernel: record it with the device's activities");
  if (summary.untimed > summary.launches - summary.answered)
    refuse(format_things(summary.untimed, "kernel") +
           " without times, which no launch places in a step");
}

}  // namespace dettax
