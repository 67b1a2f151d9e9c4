#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.h"
#include "harness/launch/protocol.h"
#include "harness/plan/case.h"
#include "harness/train/observer.h"
#include "harness/train/train_step.h"

namespace dettax {

// Whether the fault is one of this arm. The fast mode's name means the fast arm alone, not control.
bool strikes_arm(const Injection& fault, const ArmSpec& spec);

// Whether the fault makes the ledgers of this arm differ from run to run.
bool changes_bits(const Injection& fault, const ArmSpec& spec);

// Strikes one rank of one arm with the faults a case injects, from inside the step (TrainStep::inject). Attached only for the steps that a
// fault names, so that all other steps run as they always do.
class FaultInjector : public StepObserver {
 public:
  // Ledgers show what faults do to bits; what ends a process has its place in the steps that are measured.
  enum class Steps { measured, ledger };

  // `group_seed` is the same for all ranks and another in every group.
  FaultInjector(const ArmSpec& spec, int rank, Device& device, uint64_t group_seed);

  // Arms the faults of this step; those that name no op strike here. False if there are none.
  bool begin_step(int64_t step, Steps steps);
  // Error{config} if a fault of this step found no op of its name: an injection that does nothing
  // would be a false test.
  void end_step();
  // Sum of the ratios by which this step is to be longer.
  double slow_ratio(int64_t step) const;

  void on_op(std::string_view path) override;
  void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                 uint64_t first_index) override;

 private:
  struct Fault {
    Injection what;
    bool armed = false;   // in this step
    bool struck = false;  // in this step
    bool spent = false;   // nan_once: struck before
  };
  void strike(const Fault& fault, const Tensor& tensor);

  Device& device_;
  std::vector<Fault> faults_;
  int64_t step_ = 0;
  std::mt19937_64 random_;        // this rank's own
  std::mt19937_64 group_random_;  // draws the same on every rank
};

// Makes ops longer, in every step alike, without changing what they do: a cause of known size. An op that communicates is so in each of
// its operations, once this rank has come to it, as over a slow link; any other at its begin. Stands before whoever else listens.
class OpDelays : public OpListener {
 public:
  OpDelays(const ArmSpec& spec, int rank);
  // From now on this step's ops are as long as the case wants them, and `behind` (or nobody) hears of them, the delay included.
  void listen(TrainStep& step, OpListener* behind);
  void on_op(const char* path, OpKind kind) override;
  void on_idle() override;
  void on_wait() override;
  void on_communicated(const Communication& communication) override;
  void on_handed_over(const Communication& message) override;

  // What all delays took so far: on a busy machine longer than asked for.
  int64_t delayed_ns() const { return delayed_ns_; }

 private:
  void pass(double seconds);

  std::vector<Injection> delays_;
  int64_t delayed_ns_ = 0;
  double communication_delay_seconds_ = 0;  // of the op in progress
  OpListener* behind_ = nullptr;
};

}  // namespace dettax
