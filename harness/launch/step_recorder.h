#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "harness/train/observer.h"
#include "profiles/host_recorder.h"

namespace dettax {

// Records a rank's steps op by op: what its thread waits for or works on, by the op's path. An op lasts until the next is issued; in ops
// that communicate, that is what compute does not hide.
class StepRecorder : public OpListener {
 public:
  // `steps` of at most `ops_per_step` ops fit until take().
  StepRecorder(int rank, int world_size, size_t steps, size_t ops_per_step);

  // The steps that follow do not join those before: between them the rank did something else.
  void begin_block() { ++next_step_; }
  void begin_step() { recorder_.begin_step(next_step_++); }
  void end_step() { recorder_.end_step(); }
  void on_op(const char* path, OpKind kind) override;
  void on_idle() override { lane_.leave(); }

  // All since the last take, ready for export.
  Trace take();

 private:
  const int rank_, world_size_;
  HostRecorder recorder_;
  HostLane& lane_;
  int64_t next_step_ = 0;
  std::unordered_map<const char*, uint32_t> places_;  // of the trace's paths
};

}  // namespace dettax
