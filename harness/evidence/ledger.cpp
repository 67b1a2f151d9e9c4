#include "harness/evidence/ledger.h"

#include <fmt/format.h>

namespace dettax {
namespace {

// The step must not keep an observer that has gone, whatever is thrown.
class Observed {
 public:
  Observed(TrainStep& step, LedgerObserver& observer) : step_(step) { step_.observe(&observer); }
  ~Observed() { step_.observe(nullptr); }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  TrainStep& step_;
};

Fingerprint of_scalar(float value) { return fingerprint(&value, 1, sizeof value); }

void add_state(const TrainStep& step, LedgerObserver& observer) {
  step.fingerprint(
      [&](std::string_view name, const Fingerprint& value) { observer.add("state", name, value); });
}

}  // namespace

// A path without outputs leaves no entry: what counts is what came out.
void LedgerObserver::on_op(std::string_view) {}

void LedgerObserver::on_tensor(std::string_view path, std::string_view tensor_name,
                               const Tensor& tensor, uint64_t first_index) {
  add(path, tensor_name, device_.fingerprint(tensor, first_index));
}

void LedgerObserver::add(std::string_view path, std::string_view tensor_name,
                         const Fingerprint& value) {
  entries_.push_back({step_, std::string(path), std::string(tensor_name), value});
}

std::vector<LedgerEntry> record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps,
                                       const std::function<StepResult()>& run_step) {
  LedgerObserver observer(device);
  const Observed observed(step, observer);
  step.reset(seed);
  observer.begin_step(-1);
  add_state(step, observer);
  for (int i = 0; i < steps; ++i) {
    observer.begin_step(i);
    const StepResult result = run_step ? run_step() : step.step();
    observer.add("result", "loss", of_scalar(result.loss));
    observer.add("result", "gradient_norm", of_scalar(result.gradient_norm));
    add_state(step, observer);
  }
  return observer.take();
}

std::string digest(const Ledger& ledger) {
  std::string bytes;
  for (size_t rank = 0; rank < ledger.ranks.size(); ++rank) {
    for (const LedgerEntry& entry : ledger.ranks[rank])
      bytes += fmt::format("{} {} {} {} {}\n", rank, entry.step, entry.path, entry.tensor,
                           to_string(entry.value));
  }
  return to_string(fingerprint(bytes.data(), bytes.size(), 1));
}

}  // namespace dettax
