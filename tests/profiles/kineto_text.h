#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace dettax {

// Text of traces in Kineto's dialect, event by event.
class KinetoText {
 public:
  std::string header = "\"schemaVersion\": 1,\n";
  std::vector<std::string> events;

  void event(const std::string& category, const std::string& name, const std::string& process,
             const std::string& thread, const std::string& ts, const std::string& dur,
             const std::string& args = "") {
    events.push_back(fmt::format(
        "  {{\n    \"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {},\n   "
        " \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      {}\n    }}\n  }}",
        category, name, process, thread, ts, dur, args));
  }
  void kernel(const std::string& name, int64_t correlation, double ts, double dur, int stream = 7) {
    event("kernel", name, "0", std::to_string(stream), number(ts), number(dur),
          fmt::format("\"device\": 0, \"stream\": {}, \"correlation\": {}, \"grid\": [1, 2, 3]",
                      stream, correlation));
  }
  void launch(int64_t correlation, double ts, double dur,
              const std::string& name = "cudaLaunchKernel") {
    event("cuda_runtime", name, "100", "100", number(ts), number(dur),
          fmt::format("\"cbid\": 211, \"correlation\": {}", correlation));
  }
  void op(const std::string& name, double ts, double dur, const std::string& thread = "100") {
    event("cpu_op", name, "100", thread, number(ts), number(dur),
          "\"External id\": 5, \"Input Dims\": [[8, 16], []]");
  }
  void step(int64_t index, double ts, double dur) {
    event("user_annotation", fmt::format("ProfilerStep#{}", index), "100", "100", number(ts),
          number(dur));
  }
  // An operation with one launch of one kernel.
  void work(const std::string& op_name, const std::string& kernel_name, double launch_ts, double ts,
            double dur, int stream = 7) {
    ++correlation_;
    op(op_name, launch_ts, 6);
    launch(correlation_, launch_ts + 1, 4);
    kernel(kernel_name, correlation_, ts, dur, stream);
  }

  std::string text() const {
    std::string all = "{\n" + header + "\"traceEvents\": [\n";
    for (size_t i = 0; i < events.size(); ++i)
      all += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
    return all + "],\n\"traceName\": \"t\"\n}\n";
  }
  static std::string number(double us) { return fmt::format("{:.3f}", us); }

 private:
  int64_t correlation_ = 0;
};

}  // namespace dettax
