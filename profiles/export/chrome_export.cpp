#include "profiles/export/chrome_export.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "profiles/export/json_text.h"
#include "profiles/import/decimal.h"
#include "profiles/keys.h"
#include "profiles/own_members.h"

namespace dettax {
namespace {

// Where an event stands, as JSON values.
struct Place {
  std::string process, thread;
};

std::string number_or_string(const std::string& text) {
  return integer_of(text) ? text : json_string(text);
}

class Writer {
 public:
  Writer(std::ostream& out, const Trace& trace)
      : out_(out),
        trace_(trace),
        host_(trace.kind == TraceKind::host),
        launches_(launches_of_work(trace)) {
    base_ns_ = trace.spans.empty() ? 0 : trace.spans.front().start_ns;
    if (!trace.steps.empty()) base_ns_ = std::min(base_ns_, trace.steps.front().start_ns);
    place_streams();
  }

  void write() {
    header();
    names();
    for (const StepMark& mark : trace_.steps) step(mark);
    if (host_ && !trace_.steps.empty()) {
      const StepMark& last = trace_.steps.back();
      step({last.index + 1, last.end_ns, last.end_ns});
    }
    for (size_t i = 0; i < trace_.spans.size(); ++i) {
      const Span& span = trace_.spans[i];
      is_work(span.category) ? work(i) : call(span);
    }
    out_ << "\n  ],\n  \"traceName\": " << json_string(trace_.source) << "\n}\n";
  }

 private:
  // Stream numbers that no tool leaves out.
  void place_streams() {
    std::map<int64_t, std::set<int64_t>> used;
    for (const Stream& stream : trace_.streams) {
      if (stream.device) used[stream.device_id].insert(stream.stream_id);
    }
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      const Stream& stream = trace_.streams[i];
      int64_t id = host_ ? kFirstStream + static_cast<int64_t>(i) : stream.stream_id;
      if (!host_ && stream.device && id <= 0) {
        for (id = kFirstStream; used[stream.device_id].contains(id);) ++id;
        used[stream.device_id].insert(id);
      }
      stream_ids_.push_back(id);
    }
  }

  void header() {
    out_ << "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [";
    std::set<int64_t> devices;
    for (const Stream& stream : trace_.streams) devices.insert(stream.device_id);
    const char* separator = "";
    for (const int64_t device : devices) {
      out_ << separator
           << fmt::format("\n    {{\"id\": {}, \"name\": \"{}\"}}", device,
                          host_ ? "host" : "device");
      separator = ",";
    }
    out_ << "\n  ],\n";
    if (trace_.rank)
      out_ << fmt::format(
          "  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}}},\n",
          *trace_.rank, trace_.world_size);
    OwnMembers own{trace_.kind,           trace_.host,           {},
                   trace_.losses.dropped, trace_.losses.untimed, trace_.losses.told};
    if (host_) own.streams = trace_.streams;
    out_ << "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": " << base_ns_ << ",\n  \""
         << kOwnMember << "\": " << write_own_members(own) << ",\n  \"traceEvents\": [";
  }

  void event(const std::string& members) {
    out_ << (first_ ? "\n    {" : ",\n    {") << members << '}';
    first_ = false;
  }

  void names() {
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      const Stream& stream = trace_.streams[i];
      const bool on_device = host_ || stream.device;
      const Place place =
          on_device ? device_place(static_cast<uint32_t>(i)) : host_place(static_cast<uint32_t>(i));
      const std::string name = host_       ? stream.thread
                               : on_device ? fmt::format("stream {}", stream_ids_[i])
                                           : "thread " + stream.thread;
      event(fmt::format(
          R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "ts": 0, "args": {{"name": {}}})",
          place.process, place.thread, json_string(name)));
    }
  }

  Place device_place(uint32_t stream) const {
    return {std::to_string(trace_.streams[stream].device_id), std::to_string(stream_ids_[stream])};
  }
  Place host_place(uint32_t stream) const {
    if (host_) return {"1", std::to_string(stream)};
    return {number_or_string(trace_.streams[stream].process),
            number_or_string(trace_.streams[stream].thread)};
  }
  // Of the thread that steps are shown on.
  Place first_host_place() const {
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      if (host_ || !trace_.streams[i].device) return host_place(static_cast<uint32_t>(i));
    }
    return {"1", "0"};
  }

  void whole_event(const char* category, const std::string& name, const Place& place,
                   int64_t start_ns, int64_t end_ns, const std::string& args) {
    event(fmt::format(
        R"("ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})",
        category, json_string(name), place.process, place.thread,
        microseconds_text(start_ns - base_ns_), microseconds_text(end_ns - start_ns), args));
  }

  void step(const StepMark& mark) {
    whole_event("user_annotation", fmt::format("ProfilerStep#{}", mark.index), first_host_place(),
                mark.start_ns, mark.end_ns, "");
  }

  void call(const Span& span) {
    const std::string& name = trace_.names[span.name];
    const bool driver = name.starts_with("cu") && !name.starts_with("cuda");
    const char* category = driver ? "cuda_driver" : "cuda_runtime";
    if (span.category == Category::annotation) category = "user_annotation";
    if (span.category == Category::op) category = "cpu_op";
    if (span.category == Category::profiler) category = "overhead";
    const std::string args =
        span.correlation != 0 ? fmt::format("\"correlation\": {}", span.correlation) : "";
    whole_event(category, name, host_place(span.stream), span.start_ns, span.end_ns, args);
  }

  static const char* work_category(Category category) {
    if (category == Category::copy) return "gpu_memcpy";
    return category == Category::memset ? "gpu_memset" : "kernel";
  }

  // Under a name by which HTA knows its kind.
  static std::string shown_name(const std::string& name, Category category) {
    if (category == Category::communication && !name.starts_with("nccl")) return "nccl:" + name;
    if (category == Category::copy && !name.starts_with("Memcpy")) return "Memcpy (" + name + ")";
    if (category == Category::memset && !name.starts_with("Memset")) return "Memset (" + name + ")";
    return name;
  }

  void work(size_t index) {
    const Span& span = trace_.spans[index];
    const std::string& name = trace_.names[span.name];
    const std::string shown = shown_name(name, span.category);
    const uint64_t correlation = host_ ? index + 1 : span.correlation;
    const Place place = device_place(span.stream);
    std::string args = fmt::format(R"("device": {}, "context": 1, "stream": {}, "correlation": {})",
                                   place.process, place.thread, correlation);
    if (span.bytes != 0) args += fmt::format(", \"bytes\": {}", span.bytes);
    if (span.path != 0)
      args += fmt::format(", \"path\": {}, \"ordinal\": {}", json_string(trace_.paths[span.path]),
                          span.ordinal);
    if (host_) args += fmt::format(", \"category\": \"{}\"", to_string(span.category));
    if (shown != name) args += fmt::format(", \"name\": {}", json_string(name));
    args += collective(span);
    whole_event(work_category(span.category), shown, place, span.start_ns, span.end_ns, args);
    launch(index, correlation, place);
  }

  std::string collective(const Span& span) const {
    if (span.collective == 0) return "";
    const Collective& collective = trace_.collectives[span.collective];
    std::string args = fmt::format(R"(, "Collective name": {}, "Process Group Name": {})",
                                   json_string(trace_.names[collective.name]),
                                   json_string(trace_.names[collective.group]));
    if (collective.sequence >= 0) args += fmt::format(", \"Seq\": {}", collective.sequence);
    if (collective.group_size > 0)
      args += fmt::format(", \"Group size\": {}", collective.group_size);
    return args;
  }

  // The arrow from launch to work, and in a trace of the host the launch.
  void launch(size_t index, uint64_t correlation, const Place& to) {
    const Span& span = trace_.spans[index];
    if (!host_ && launches_[index] < 0) return;
    const Span& call = host_ ? span : trace_.spans[static_cast<size_t>(launches_[index])];
    const Place from = host_place(call.stream);
    if (host_)
      whole_event("cuda_runtime", std::string(kHostLaunch), from, call.start_ns, call.start_ns,
                  fmt::format("\"correlation\": {}", correlation));
    const auto arrow = [&](const char* phase, const Place& place, int64_t time_ns,
                           const char* end) {
      event(fmt::format(
          R"("ph": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {}, "cat": "ac2g", "name": "ac2g"{})",
          phase, correlation, place.process, place.thread, microseconds_text(time_ns - base_ns_),
          end));
    };
    arrow("s", from, call.start_ns, "");
    arrow("f", to, span.start_ns, R"(, "bp": "e")");
  }

  std::ostream& out_;
  const Trace& trace_;
  const bool host_;
  const std::vector<int64_t> launches_;
  std::vector<int64_t> stream_ids_;  // by stream
  int64_t base_ns_ = 0;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(std::ostream& out, const Trace& trace) { Writer(out, trace).write(); }

}  // namespace dettax
