#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/device/device.h"
#include "harness/plan/case.h"
#include "harness/train/observer.h"
#include "harness/train/train_step.h"

namespace dettax {

// One fingerprint in program order of a rank.
struct LedgerEntry {
  int64_t step = 0;
  std::string path;  // phase/layer/op, or "state"
  std::string tensor;
  Fingerprint value;
  friend bool operator==(const LedgerEntry&, const LedgerEntry&) = default;
};

// Fingerprints of one run, per rank in program order. What identifies the run stands in front, so
// that a comparison can say "different environment" or "different shapes" before it compares bits.
struct Ledger {
  std::string case_id, mode, mode_hash;
  int64_t seed = 0, steps = 0, threads_per_rank = 0, data_parallel = 0, micro_batch = 0;
  std::vector<std::vector<LedgerEntry>> ranks;
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

// Takes every op's outputs and, at each step's end, loss, gradient norm and state into a ledger.
// One per rank.
class LedgerObserver : public StepObserver {
 public:
  explicit LedgerObserver(Device& device) : device_(device) {}
  void begin_step(int64_t step) { step_ = step; }
  void on_op(std::string_view path) override;
  void on_tensor(std::string_view path, std::string_view tensor_name, const Tensor& tensor,
                 uint64_t first_index) override;
  void add(std::string_view path, std::string_view tensor_name, const Fingerprint& value);
  std::vector<LedgerEntry> take() { return std::move(entries_); }

 private:
  Device& device_;
  int64_t step_ = 0;
  std::vector<LedgerEntry> entries_;
};

// reset(seed), then `steps` steps under a LedgerObserver; state is fingerprinted at step -1 (after
// reset) and after each step as path "state", loss and gradient norm as path "result".
// `run_step` stands in for step.step() where more is to happen around it.
std::vector<LedgerEntry> record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps,
                                       const std::function<StepResult()>& run_step = {});

// Digest of the entries of all ranks in their order, and of nothing in front of them: equal where
// the bits are, whatever the threads. Another micro-batch or number of ranks has other entries.
std::string digest(const Ledger& ledger);

// One JSON object a line: a head line, then entries; read_ledger throws Error{config} naming the
// line of a damaged or truncated file.
void write_ledger(std::ostream& out, const Ledger& ledger);
Ledger read_ledger(std::istream& in, const std::string& name);

struct LedgerComparison {
  bool comparable = true;
  std::string incomparable_reason;  // different case, seed, steps, shapes; said before any bits are
                                    // compared
  bool equal = false;
  int64_t compared = 0;
  int64_t differing = 0;
  std::optional<LedgerEntry> first;  // in program order over all ranks
  int first_rank = 0;
  int64_t first_ranks = 0;  // on which it differs at once
  // In its step nothing that a micro-batch computes differs but most of the gradients added up from the second micro-batch on.
  bool accumulated = false;
  // Parameters whose state differs after that step though their gradients agreed: through the clip factor alone.
  int64_t through_clip_factor = 0;
  bool inputs_agreed = false;  // it is a reduction's result, and its inputs agreed on every rank
  std::string description;     // "step 0, rank 1, backward/layer3/attention: dq differs (12 later
                               // entries differ downstream)"
};

// What the two may differ in and still be compared. When only the threads differ every entry is
// compared; with other micro-batches or ranks only paths "result" and "state" and, where both have
// them, the reduced gradients.
struct CompareOptions {
  bool allow_other_layout =
      false;  // other threads, micro-batches or data-parallel ranks: only what does not depend on
              // the layout is compared (loss, gradient norm, reduced gradients, state), on rank 0
  bool force =
      false;  // compare bits although the heads differ: shows where another environment shows first
};
// Missing, skipped or shorter never counts as equal; empty ledgers are incomparable.
LedgerComparison compare_ledgers(const Ledger& a, const Ledger& b,
                                 const CompareOptions& options = {});

}  // namespace dettax
