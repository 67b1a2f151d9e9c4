#pragma once

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "profiles/trace.h"

namespace dettax {

// A span with its numbers looked up, so that spans of two traces compare.
struct ResolvedSpan {
  int64_t start_ns, end_ns, bytes;
  uint64_t correlation;
  std::string name, path;
  uint32_t ordinal;
  bool device;
  int64_t device_id, stream_id;
  std::string thread;
  Category category;
  std::string collective, group;
  int64_t sequence, group_size;
  friend auto operator<=>(const ResolvedSpan&, const ResolvedSpan&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const ResolvedSpan& span) {
  return out << to_string(span.category) << ' ' << span.name << " [" << span.start_ns << ", "
             << span.end_ns << ") " << span.path << " #" << span.ordinal << " stream "
             << span.stream_id << ' ' << span.thread << " correlation " << span.correlation;
}

inline std::vector<ResolvedSpan> resolved(const Trace& trace) {
  std::vector<ResolvedSpan> spans;
  for (const Span& span : trace.spans) {
    const Stream& stream = trace.streams[span.stream];
    const Collective& collective = trace.collectives[span.collective];
    spans.push_back({span.start_ns, span.end_ns, span.bytes, span.correlation,
                     trace.names[span.name], trace.paths[span.path], span.ordinal, stream.device,
                     stream.device_id, stream.stream_id, stream.device ? "" : stream.thread,
                     span.category, trace.names[collective.name], trace.names[collective.group],
                     collective.sequence, collective.group_size});
  }
  std::sort(spans.begin(), spans.end());
  return spans;
}

}  // namespace dettax
