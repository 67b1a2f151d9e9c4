#include "profiles/keys.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "profiles/classify.h"

namespace dettax {
namespace {

// One time that a range was open and may name work.
struct Occurrence {
  int64_t start_ns = 0;
  uint32_t path = 0, ordinal = 0;
  bool communicates = false;
};

constexpr size_t kNoOccurrence = static_cast<size_t>(-1);

// The ranges of one thread, walked in order of time.
class ThreadWalk {
 public:
  ThreadWalk(Trace& trace, std::vector<Occurrence>& occurrences)
      : trace_(trace), occurrences_(occurrences) {}

  struct Change {  // from this time on, this annotation is the innermost open one
    int64_t at_ns;
    size_t occurrence;
  };

  // `outside`: what another thread had open, where this one has no annotation. Fills `innermost` for the calls among `spans`.
  void walk(const std::vector<uint32_t>& spans, const std::vector<Change>& outside,
            std::vector<size_t>& innermost) {
    for (const uint32_t index : spans) {
      const Span& span = trace_.spans[index];
      close_until(span.start_ns);
      if (span.category == Category::annotation) {
        open(span, prefix(span.start_ns, outside));
        changes_.push_back({span.start_ns, open_.back().occurrence});
      } else if (span.category == Category::op) {
        if (open_.empty() || !open_.back().is_op) open(span, prefix(span.start_ns, outside));
      } else {
        innermost[index] = prefix(span.start_ns, outside);
      }
    }
  }
  const std::vector<Change>& changes() const { return changes_; }

  static size_t at(const std::vector<Change>& changes, int64_t time_ns) {
    const auto behind =
        std::upper_bound(changes.begin(), changes.end(), time_ns,
                         [](int64_t time, const Change& change) { return time < change.at_ns; });
    return behind == changes.begin() ? kNoOccurrence : std::prev(behind)->occurrence;
  }

 private:
  struct Open {
    int64_t end_ns;
    size_t occurrence;
    bool is_op;
  };

  void close_until(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      const Open closed = open_.back();
      open_.pop_back();
      if (!closed.is_op)
        changes_.push_back(
            {closed.end_ns, open_.empty() ? kNoOccurrence : open_.back().occurrence});
    }
  }

  size_t prefix(int64_t time_ns, const std::vector<Change>& outside) const {
    return open_.empty() ? at(outside, time_ns) : open_.back().occurrence;
  }

  void open(const Span& span, size_t parent) {
    const std::string& name = trace_.names[span.name];
    std::string path =
        parent == kNoOccurrence ? std::string() : trace_.paths[occurrences_[parent].path] + "/";
    path += name;
    const bool communicates =
        is_communication_op(name) || (parent != kNoOccurrence && occurrences_[parent].communicates);
    occurrences_.push_back({span.start_ns, trace_.paths.intern(path), 0, communicates});
    open_.push_back({span.end_ns, occurrences_.size() - 1, span.category == Category::op});
  }

  Trace& trace_;
  std::vector<Occurrence>& occurrences_;
  std::vector<Open> open_;
  std::vector<Change> changes_;
};

// Indices of the spans of each host stream, in order of time, and which of them is the main thread: the one with most annotations, and
// among equals with most calls.
struct Threads {
  std::vector<std::vector<uint32_t>> spans;
  size_t main = 0;
};

Threads threads_of(const Trace& trace) {
  Threads threads;
  threads.spans.resize(trace.streams.size());
  std::vector<std::pair<int64_t, int64_t>> weight(trace.streams.size());
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (is_work(span.category)) continue;
    threads.spans[span.stream].push_back(static_cast<uint32_t>(i));
    ++(span.category == Category::annotation ? weight[span.stream].first
                                             : weight[span.stream].second);
  }
  threads.main =
      static_cast<size_t>(std::max_element(weight.begin(), weight.end()) - weight.begin());
  return threads;
}

// Counts occurrences of a path within each step.
void number_occurrences(const Trace& trace, std::vector<Occurrence>& occurrences) {
  std::vector<size_t> order(occurrences.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return occurrences[a].start_ns < occurrences[b].start_ns;
  });
  std::vector<uint32_t> count(trace.paths.size());
  auto step = trace.steps.begin();
  for (const size_t i : order) {
    for (; step != trace.steps.end() && step->start_ns <= occurrences[i].start_ns; ++step)
      std::fill(count.begin(), count.end(), 0);
    occurrences[i].ordinal = count[occurrences[i].path]++;
  }
}

}  // namespace

std::vector<int64_t> launches_of_work(const Trace& trace) {
  std::vector<std::pair<uint64_t, int64_t>> calls;
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (!is_work(span.category) && !is_range(span.category) && span.correlation != 0)
      calls.emplace_back(span.correlation, static_cast<int64_t>(i));
  }
  std::sort(calls.begin(), calls.end());
  std::vector<int64_t> launches(trace.spans.size(), -1);
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (!is_work(span.category) || span.correlation == 0) continue;
    const auto found = std::lower_bound(calls.begin(), calls.end(),
                                        std::pair<uint64_t, int64_t>(span.correlation, -1));
    if (found != calls.end() && found->first == span.correlation) launches[i] = found->second;
  }
  return launches;
}

void assign_paths(Trace& trace) {
  if (trace.kind == TraceKind::host || trace.streams.empty()) return;
  const Threads threads = threads_of(trace);
  std::vector<Occurrence> occurrences;
  std::vector<size_t> innermost(trace.spans.size(), kNoOccurrence);
  ThreadWalk main(trace, occurrences);
  main.walk(threads.spans[threads.main], {}, innermost);
  for (size_t stream = 0; stream < threads.spans.size(); ++stream) {
    if (stream == threads.main || threads.spans[stream].empty()) continue;
    ThreadWalk(trace, occurrences).walk(threads.spans[stream], main.changes(), innermost);
  }
  number_occurrences(trace, occurrences);
  const std::vector<int64_t> launches = launches_of_work(trace);
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    Span& span = trace.spans[i];
    const size_t call = launches[i] >= 0 ? static_cast<size_t>(launches[i]) : i;
    if (innermost[call] == kNoOccurrence || is_range(span.category)) continue;
    const Occurrence& occurrence = occurrences[innermost[call]];
    span.path = occurrence.path;
    span.ordinal = occurrence.ordinal;
    if (occurrence.communicates && span.category == Category::compute)
      span.category = Category::communication;
  }
}

}  // namespace dettax
