#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/name_table.h"
#include "profiles/trace.h"

namespace dettax {

// Nanoseconds since the epoch: the clock that device profilers stamp by, so that traces of one node can be laid together.
int64_t realtime_ns();

// What one thread of a rank recorded. A lane belongs to its thread alone: no two threads may use it at once, and nothing in it is
// shared, so that recording takes no lock. Its memory is taken in the constructor; a new path or group costs an allocation the first
// time, which a step of warm-up pays. When it is full, what comes is counted as lost.
class HostLane {
 public:
  HostLane(std::string thread_name, size_t spans, int64_t (*now_ns)());

  uint32_t text_of(std::string_view text) { return texts_.intern(text); }  // for what follows

  // From here on the thread works under this path, until the next enter or leave. The time that recording takes is a span of its own
  // in front of it.
  void enter(uint32_t path, Category category, int64_t bytes = 0);
  // The same, but as of since_ns, and no further occurrence of the path.
  void resume(uint32_t path, Category category, int64_t since_ns);
  // From here on it does not. The time, for what comes then.
  int64_t leave();
  int64_t time_ns() const { return now_ns_(); }

  // Work that was timed elsewhere, e.g. by a progress thread; it may overlap with what is entered.
  void add(uint32_t path, Category category, int64_t start_ns, int64_t end_ns, int64_t bytes = 0);

  // An operation among ranks; `name` and `group` by text_of.
  struct Part {
    uint32_t name = 0, group = 0;
    int64_t sequence = -1, group_size = 0;
    int64_t bytes = 0;
  };
  // One rank's part in it. `occurrence`: of its path, or of the last one of it.
  void add_part(uint32_t path, const Part& part, int64_t start_ns, int64_t end_ns, bool occurrence);

 private:
  friend class HostRecorder;
  struct Record {
    int64_t entered_ns = 0, start_ns = 0, end_ns = 0;  // recording took [entered, start)
    uint32_t path = 0;
    Category category = Category::compute;
    bool occurrence = true;  // of its path, or belongs to the one before it
    Part part;
  };
  Record* next_record();
  void close(int64_t now_ns);
  void begin(const Record& record);
  void insert(const Record& record);

  std::string thread_name_;
  int64_t (*now_ns_)();
  NameTable texts_;
  std::vector<Record> records_;  // as many as fit; the first used_ count
  size_t used_ = 0;
  bool open_ = false;
  int64_t lost_ = 0;
};

// Records what the threads of one rank do during profiled steps. Off (and never called) when steps are timed. It is made for an
// observer of the training step (StepObserver): on_op(path) enters the lane of the rank's thread under the path, without the
// micro-batch, whose number becomes the ordinal.
class HostRecorder {
 public:
  struct Settings {
    std::vector<std::string> threads;  // names, one lane each
    size_t spans_per_thread = 1U << 16U;
    size_t steps = 64;
    int64_t (*now_ns)() = realtime_ns;
  };
  explicit HostRecorder(const Settings& settings);

  HostLane& lane(size_t thread) { return lanes_[thread]; }
  // By the rank's own thread. Steps beyond Settings::steps are lost and counted.
  void begin_step(int64_t index);
  void end_step();

  // All that was recorded, while no thread records; the lanes are empty after it and keep their memory. Ordinals count how often a lane
  // entered a path within the step, so that threads that share one operation share its key.
  Trace take();

 private:
  void move_lane(HostLane& lane, uint32_t stream, Trace& trace) const;

  std::vector<HostLane> lanes_;
  std::vector<StepMark> steps_;
  size_t steps_max_;
  bool in_step_ = false;
  int64_t lost_steps_ = 0;
  int64_t (*now_ns_)();
};

}  // namespace dettax
