#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/capture/capture.h"
#include "profiles/inject/settings.h"
#include "profiles/name_table.h"

namespace dettax {

// The ranges that a program names by NVTX, on all of its threads, and what they say of the window. A lock, a look-up and a clock a call.
class RangeRecorder {
 public:
  RangeRecorder(InjectionWindow window, std::string step_name, int64_t (*now_ns)());

  // What a range that begins or ends says of the window.
  enum class Cue { none, ready, begin, end };  // ready: the window is about to begin

  uint32_t text(std::string_view text);  // by number, for domains and registered strings
  Cue push(uint32_t domain, uint32_t name, int* depth);
  Cue pop(uint32_t domain, int* depth);
  // Ranges that need not nest: good for steps only.
  uint64_t start(uint32_t domain, uint32_t name, Cue* cue);
  Cue end(uint64_t id);

  void record(bool on);
  // With what is still open, until `end_ns`.
  void close_open(int64_t end_ns);
  // Moves what was recorded, with the names put into the capture's.
  std::vector<DeviceRecord> take(Capture& capture);

 private:
  struct Open {
    uint32_t domain = 0, name = 0;
    int64_t start_ns = 0;
    int64_t counted_step = -1;  // its number, if it is a step by its name alone
  };
  struct Thread {
    uint32_t number = 0;
    std::vector<Open> open;
  };

  Thread& this_thread();
  Open opened(uint32_t domain, uint32_t name);
  int64_t step_of(const Open& range) const;  // -1: none
  Cue cue_of_begin(const Open& range);
  Cue cue_of_end(const Open& range);
  void add(const Open& range, uint32_t thread, int64_t end_ns, bool nests);

  const InjectionWindow window_;
  const std::string step_name_;
  int64_t (*now_ns_)();
  std::mutex mutex_;
  NameTable names_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::map<uint64_t, std::pair<Open, uint32_t>> started_;  // with the thread that did
  std::vector<DeviceRecord> records_;
  uint64_t next_id_ = 1;
  int64_t steps_counted_ = 0, lost_ = 0;
  bool recording_ = false, ready_ = false, begun_ = false, ended_ = false;
};

}  // namespace dettax
