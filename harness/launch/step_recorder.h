#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "harness/train/observer.h"
#include "profiles/host_recorder.h"

namespace dettax {

// What one step takes of a recorder, learnt by listening to one.
class StepSize : public OpListener {
 public:
  void on_op(const char*, OpKind) override { ++spans; }
  void on_idle() override {}
  void on_wait() override {}
  void on_communicated(const Communication& communication) override;
  void on_handed_over(const Communication&) override { ++spans; }

  size_t spans = 0;
  std::set<std::string> groups_beside;  // whose operations go on beside the rank's thread
};

// Records a rank's steps op by op: what its thread works on, by the op's path, until the next is issued; and under the same path what it
// does with other ranks, or waits for. What goes on beside the thread has a lane of its own for each group.
class StepRecorder : public OpListener {
 public:
  // `steps` of at most this size fit until take().
  StepRecorder(int rank, int world_size, size_t steps, const StepSize& size);

  // The steps that follow do not join those before: between them the rank did something else.
  void begin_block() { ++next_step_; }
  void begin_step();
  void end_step();
  void on_op(const char* path, OpKind kind) override;
  void on_idle() override;
  void on_wait() override;
  void on_communicated(const Communication& communication) override;
  void on_handed_over(const Communication& message) override;

  // All since the last take, ready for export.
  Trace take();

 private:
  // A lane and its numbers of texts, which are known by their addresses.
  struct Lane {
    HostLane& lane;
    std::unordered_map<const char*, uint32_t> known = {};
    uint32_t number(std::string_view text);
    HostLane::Part part(const Communication& communication);
  };

  const int rank_, world_size_;
  HostRecorder recorder_;
  Lane own_;
  std::map<std::string, Lane, std::less<>> beside_;  // by group
  int64_t next_step_ = 0;
  bool in_step_ = false;
  const char* path_ = "";  // of the op in progress
  Category category_ = Category::compute;
  int64_t waiting_since_ns_ = 0;
};

}  // namespace dettax
