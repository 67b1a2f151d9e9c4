#include "profiles/steps.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "profiles/keys.h"

namespace dettax {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// What is known of a step before its window is.
struct Draft {
  StepMark mark;
  int64_t launches = 0, answered = 0;
  int64_t first_work_ns = kNever;
  int64_t first_launch_ns = kNever;
  bool first_launch_answered = false;

  bool starts() const { return first_work_ns != kNever && first_launch_answered; }
};

class Steps {
 public:
  explicit Steps(const Trace& trace) : trace_(trace), launches_(launches_of_work(trace)) {
    for (const StepMark& mark : trace.steps) drafts_.push_back({mark});
  }

  std::vector<StepWindow> device_windows() {
    count_launches();
    std::vector<StepWindow> windows;
    int64_t end_ns = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < drafts_.size(); ++i) {
      windows.push_back(window_of(i));
      StepWindow& window = windows.back();
      if (!window.incomplete.empty()) continue;
      if (window.start_ns < end_ns)
        window.incomplete = "it begins before the step in front of it ends";
      end_ns = std::max(end_ns, window.end_ns);
    }
    mark_orphans(windows);
    return windows;
  }

  std::vector<StepWindow> whole_capture() {
    int64_t start = kNever, end = std::numeric_limits<int64_t>::min();
    for (const Span& span : trace_.spans) {
      if (!is_work(span.category)) continue;
      start = std::min(start, span.start_ns);
      end = std::max(end, span.end_ns);
    }
    if (start == kNever) return {};
    drafts_.push_back({{-1, std::numeric_limits<int64_t>::min(), kNever}});
    count_launches();
    StepWindow window{-1, start, end, drafts_[0].launches, drafts_[0].answered, {}};
    if (window.answered < window.launches) window.incomplete = unanswered(drafts_[0]);
    std::vector<StepWindow> windows{window};
    mark_orphans(windows);
    return windows;
  }

 private:
  Draft* draft_at(int64_t host_time_ns) {
    const auto behind = std::upper_bound(
        drafts_.begin(), drafts_.end(), host_time_ns,
        [](int64_t time, const Draft& draft) { return time < draft.mark.start_ns; });
    if (behind == drafts_.begin()) return nullptr;
    Draft& draft = *std::prev(behind);
    return host_time_ns < draft.mark.end_ns ? &draft : nullptr;
  }

  void count_launches() {
    std::vector<bool> answered(trace_.spans.size());
    for (size_t i = 0; i < trace_.spans.size(); ++i) {
      if (launches_[i] < 0) continue;
      const auto call = static_cast<size_t>(launches_[i]);
      answered[call] = true;
      if (Draft* draft = draft_at(trace_.spans[call].start_ns))
        draft->first_work_ns = std::min(draft->first_work_ns, trace_.spans[i].start_ns);
    }
    for (size_t i = 0; i < trace_.spans.size(); ++i) {
      const Span& call = trace_.spans[i];
      if (!starts_kernels(trace_, call)) continue;
      Draft* draft = draft_at(call.start_ns);
      if (draft == nullptr) continue;
      ++draft->launches;
      draft->answered += answered[i] ? 1 : 0;
      if (call.start_ns < draft->first_launch_ns) {
        draft->first_launch_ns = call.start_ns;
        draft->first_launch_answered = answered[i];
      }
    }
  }

  static std::string unanswered(const Draft& draft) {
    return std::to_string(draft.answered) + " of " + std::to_string(draft.launches) +
           " launches left work on the device";
  }

  StepWindow window_of(size_t i) const {
    const Draft& draft = drafts_[i];
    StepWindow window{draft.mark.index, draft.first_work_ns, draft.first_work_ns,
                      draft.launches,   draft.answered,      {}};
    const Draft* next = i + 1 < drafts_.size() ? &drafts_[i + 1] : nullptr;
    if (draft.launches == 0) {
      window.incomplete = "nothing was launched in it";
    } else if (draft.answered < draft.launches) {
      window.incomplete = unanswered(draft);
    } else if (next == nullptr) {
      window.incomplete = "the capture ends with it";
    } else if (next->mark.index != draft.mark.index + 1 || !next->starts()) {
      window.incomplete = "the first work of the step behind it is not known";
    } else if (next->first_work_ns <= draft.first_work_ns) {
      window.incomplete = "the step behind it does not begin after it";
    }
    if (window.incomplete.empty()) window.end_ns = next->first_work_ns;
    return window;
  }

  // Work that names a launch which is not there: something was lost where it ran.
  void mark_orphans(std::vector<StepWindow>& windows) const {
    for (size_t i = 0; i < trace_.spans.size(); ++i) {
      const Span& span = trace_.spans[i];
      if (!is_work(span.category) || span.correlation == 0 || launches_[i] >= 0) continue;
      for (StepWindow& window : windows) {
        const bool inside = span.start_ns < window.end_ns && span.end_ns > window.start_ns;
        if (inside && window.incomplete.empty())
          window.incomplete = "work " + std::to_string(span.correlation) + " has no launch";
      }
    }
  }

  const Trace& trace_;
  const std::vector<int64_t> launches_;
  std::vector<Draft> drafts_;
};

// Spans stand in the file in the order of their begins, behind all marks.
std::vector<StepWindow> host_windows(const Trace& trace) {
  std::vector<StepWindow> windows;
  int64_t last_begin_ns = std::numeric_limits<int64_t>::min();
  for (const Span& span : trace.spans) last_begin_ns = std::max(last_begin_ns, span.start_ns);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const StepMark& mark = trace.steps[i];
    const bool joined = i + 1 < trace.steps.size() && trace.steps[i + 1].index == mark.index + 1;
    windows.push_back(
        {mark.index, mark.start_ns, joined ? trace.steps[i + 1].start_ns : mark.end_ns, 0, 0, {}});
    if (trace.losses.cut_off && windows.back().end_ns > last_begin_ns)
      windows.back().incomplete = "the file was cut off before its end";
  }
  return windows;
}

}  // namespace

bool starts_kernels(const Trace& trace, const Span& call) {
  return call.category == Category::launch &&
         trace.names[call.name].find("Launch") != std::string::npos;
}

std::vector<StepWindow> step_windows(const Trace& trace) {
  if (trace.steps.empty()) return Steps(trace).whole_capture();
  if (trace.kind == TraceKind::host) return host_windows(trace);
  return Steps(trace).device_windows();
}

}  // namespace dettax
