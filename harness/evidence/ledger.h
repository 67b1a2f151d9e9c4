#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/device/device.h"
#include "harness/evidence/ledger_columns.h"
#include "harness/plan/case.h"
#include "harness/plan/ledger_depth.h"
#include "harness/train/observer.h"
#include "harness/train/train_step.h"
#include "results/record.h"

namespace dettax {

// One fingerprint in program order of a rank.
struct LedgerEntry {
  int64_t step = 0;
  std::string path;  // phase/layer/op, or "state"
  std::string tensor;
  Fingerprint value;
  friend bool operator==(const LedgerEntry&, const LedgerEntry&) = default;
};

// What identifies a run. It stands in front of the fingerprints, so that a comparison can say
// "different environment" or "different shapes" before it compares bits.
struct LedgerHead {
  std::string case_id, mode, mode_hash;
  int64_t seed = 0, steps = 0, threads_per_rank = 0, data_parallel = 0, micro_batch = 0;
  LedgerDepth depth = LedgerDepth::op;
  std::optional<bool> claims_reproducible;  // the mode; nothing: not known
  std::map<std::string, int64_t> model;     // what decides shapes: "vocabulary" -> 512
  // What else of the case decides bits, in the words of a suite: "optimizer.learning_rate" -> "0.001".
  // Nothing of how it is laid out. Empty: not known.
  std::map<std::string, std::string> setup;
  std::map<std::string, std::string> knobs;        // of the mode, in the words of its file
  std::map<std::string, std::string> environment;  // of results/environment.h; empty: not known
  std::string suite;  // as YAML, of a golden run: what repeats it; else empty
  friend bool operator==(const LedgerHead&, const LedgerHead&) = default;
};

// Fingerprints of one run, per rank in program order, all in memory. For large ones see
// ledger_source.h.
struct Ledger : LedgerHead {
  std::vector<std::vector<LedgerEntry>> ranks;
  bool torn = false;  // its file has no end: whoever wrote it was stopped
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

// What a case and a mode say in a ledger's head; steps and seed are the run's.
LedgerHead make_ledger_head(const Case& planned, const Mode& mode, LedgerDepth depth);
// Of an environment what bits may depend on, or who reads a difference wants to know.
std::map<std::string, std::string> ledger_environment(const Environment& environment);

// Takes what its depth asks for into columns and, at each step's end, hands them on. One per rank.
class LedgerObserver : public StepObserver {
 public:
  // A whole step of this rank: names hold, the columns only during the call.
  using Sink = std::function<void(int64_t step, const LedgerNames&, const LedgerColumns&)>;

  LedgerObserver(Device& device, LedgerDepth depth, Sink sink)
      : device_(device), depth_(depth), sink_(std::move(sink)) {}
  void begin_step(int64_t step) {
    step_ = step;
    shown_.clear();
    shown_places_.clear();
  }
  void on_op(std::string_view path) override;
  void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                 uint64_t first_index) override;
  bool sees_every_op() const override { return depth_ == LedgerDepth::op; }
  void on_fact(std::string_view path, std::string_view name, const Fingerprint& value) override;
  void add(std::string_view path, std::string_view tensor_name, const Fingerprint& value);
  void end_step();

 private:
  // The last output of a layer, which is known for one when another layer begins.
  struct Handed {
    std::string layer, path, tensor;
    Tensor value;
    uint64_t first_index = 0;
  };
  void take_handed();
  void take_shown();

  Device& device_;
  const LedgerDepth depth_;
  const Sink sink_;
  int64_t step_ = 0;
  LedgerNames names_;
  LedgerColumns columns_;
  std::optional<Handed> handed_;
  // Of an op that only shows tensors: taken together when the next begins, each to its place.
  std::vector<FingerprintPart> shown_;
  std::vector<size_t> shown_places_;
};

// reset(seed), then `steps` steps under a LedgerObserver; state is fingerprinted at step -1 (after
// reset) and after each step as path "state", loss and gradient norm as path "result".
// `run_step` stands in for step.step() where more is to happen around it.
void record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps, LedgerDepth depth,
                   const LedgerObserver::Sink& sink,
                   const std::function<StepResult()>& run_step = {});
// Steps [from, end).
struct LedgerSteps {
  int from = 0, end = 0;
  LedgerDepth depth = LedgerDepth::op;
};
// The same from where the training step stands, which has done `from` steps: the state as that of step from - 1, then the steps.
void continue_ledger(TrainStep& step, Device& device, const LedgerSteps& steps,
                     const LedgerObserver::Sink& sink,
                     const std::function<StepResult()>& run_step = {});
// The same as record_ledger into memory, op by op.
std::vector<LedgerEntry> record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps);

// Digest of the entries of all ranks in their order, and of nothing in front of them: equal where
// the bits are, whatever the threads. Another micro-batch or number of ranks has other entries.
std::string digest(const Ledger& ledger);

// A whole file at once; the form is that of ledger_file.h. read_ledger throws Error{config} naming
// the place of damage; a file that was cut off gives what is whole, and `torn`.
void write_ledger(std::ostream& out, const Ledger& ledger);
Ledger read_ledger(std::istream& in, const std::string& name);

struct LedgerComparison {
  bool comparable = true;
  std::string incomparable_reason;  // different case, seed, steps, shapes, environment; said before
                                    // any bits are compared
  bool equal = false;
  int64_t compared = 0;
  int64_t differing = 0;
  std::optional<LedgerEntry> first;  // in program order over all ranks
  int first_rank = 0;
  int64_t first_ranks = 0;  // on which it differs at once
  bool structural =
      false;  // an entry has no partner or another place: nothing is known of its bits
  bool step_missing = false;  // and one of the two has nothing of that step
  bool torn = false;          // one of the two was cut off
  int64_t steps_differing = 0;
  LedgerDepth depth =
      LedgerDepth::op;  // of the shallower: how near the first difference is to its origin
  // In its step nothing that a micro-batch computes differs but most of the gradients added up from the second micro-batch on.
  bool accumulated = false;
  // Parameters whose state differs after that step though their gradients agreed: through the clip factor alone.
  int64_t through_clip_factor = 0;
  bool inputs_agreed = false;  // it is a reduction's result, and its inputs agreed on every rank
  bool gradients_agreed =
      false;                // it is a parameter's state, and its gradient and all before it agreed
  std::string description;  // "step 0, rank 1, backward/layer3/attention: dq differs (12 later
                            // entries differ downstream)"
};

// What the two may differ in and still be compared. When only the threads differ every entry is
// compared; with other micro-batches or ranks only paths "result" and "state" and, where both have
// them, the reduced gradients.
struct CompareOptions {
  bool allow_other_layout =
      false;  // other threads, micro-batches or data-parallel ranks: only what does not depend on
              // the layout is compared (loss, gradient norm, reduced gradients, state), on rank 0
  bool other_environment = false;  // the same run on another machine or build
  bool force =
      false;  // compare bits although the heads differ: shows where another environment shows first
};
// Missing, skipped or shorter never counts as equal; empty ledgers are incomparable.
LedgerComparison compare_ledgers(const Ledger& a, const Ledger& b,
                                 const CompareOptions& options = {});

// In what the environments differ, "compiler: GNU 12.2.0 against Clang 19.1.0"; the first are what
// bits may depend on, the others (commit, kernel, cores) are only told. Empty where one is not known.
struct EnvironmentDifferences {
  std::vector<std::string> bits, told;
};
EnvironmentDifferences environment_differences(const LedgerHead& a, const LedgerHead& b);

}  // namespace dettax
