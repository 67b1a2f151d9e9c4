#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/comm/communicator.h"
#include "harness/comm/mesh.h"
#include "harness/device/device.h"
#include "harness/plan/case.h"
#include "harness/train/fill_totals.h"
#include "harness/train/model_layout.h"
#include "harness/train/observer.h"
#include "harness/train/state.h"

namespace dettax {

// What a step reports on every rank alike (summed over the data-parallel group).
struct StepResult {
  float loss = 0;           // mean over all tokens of the global batch
  float gradient_norm = 0;  // before clipping
  bool finite = true;       // both are
};

// The one object that is checked, timed and profiled: a real training step of one rank. It borrows device and communicator, which
// must outlive it. It holds weights, gradients, optimizer state and activations once, allocated in the constructor; a step allocates
// nothing.
class TrainStep {
 public:
  TrainStep(const Case& planned, const Mode& mode, Device& device, Communicator& communicator);
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;

  // Initial weights from (seed, parameter, global index), optimizer state zero, step counter 0. After it the same steps give the same
  // bits, where the mode keeps its promise.
  void reset(uint64_t seed);
  // Forward and backward over all micro-batches, gradient reduction, clipping, optimizer.
  StepResult step();
  int64_t steps_done() const;

  // Null takes it away. The observer must outlive its use. Also for reset(), which shows nothing.
  void observe(StepObserver* observer);
  // Hears which op is issued, in steps that are otherwise as nobody watched them. Null takes it away.
  void listen(OpListener* listener);
  // Sees what an observer sees, each output before the observer does, and may change it: how faults are put in.
  void inject(StepObserver* injector);

  // The op that was issued last, by its path without the micro-batch; "idle" between steps. Text and count (of ops since
  // construction) may be read from another thread at any time, also while a step hangs; the text lives as long as this object.
  const char* current_op() const;
  int64_t ops_issued() const;

  // State that survives a step, in a fixed order: weights, both moments (names end in .first_moment, .second_moment), then the random
  // number and data positions. Of whole tensors, whatever the layout; called by all ranks at once.
  using FingerprintSink = std::function<void(std::string_view name, const Fingerprint& value)>;
  void fingerprint(const FingerprintSink& sink) const;

  // All that this rank must have to go on, with the case, as if it had never stopped, each name once. Views that may be read between steps,
  // and written right after a reset.
  std::vector<StateTensor> state();
  const Case& planned() const;
  Device& device() const;

  // What this rank holds of each parameter, by name (for tests and comparisons with a reference): elements [first, first + count) of
  // those that `spec` says it has. With the optimizer sharded that is what it updates.
  struct Parameter {
    std::string name;
    Tensor value, gradient;
    const ParameterSpec* spec = nullptr;
    int64_t first = 0;
  };
  const std::vector<Parameter>& parameters() const;
  // The groups it communicates in; each keeps count of what went over it.
  const Mesh& mesh() const;

  FillTotals fills() const;

  double flops_per_step() const;
  int64_t tokens_per_step() const;  // of the global batch
  int64_t allocated_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dettax
