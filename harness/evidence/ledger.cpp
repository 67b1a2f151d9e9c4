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

// Of every depth: tokens, what reductions take and give, and the scalars of the update. Weights that
// an optimizer gathers are in the state.
bool of_every_step(std::string_view path, std::string_view tensor) {
  if (path.ends_with("/data") || path.starts_with("reduce/")) return true;
  return path.starts_with("optimizer/") && !tensor.starts_with("weights");
}

// "micro1/backward/layer3" of "micro1/backward/layer3/mlp_up"; ops outside of layers are their own.
std::string_view layer_of(std::string_view path) {
  const size_t layer = path.find("/layer");
  return layer == path.npos ? path : path.substr(0, path.find('/', layer + 1));
}

// An op that computes nothing: what it shows stays as it is until the next begins.
bool only_shows(std::string_view path) { return path.ends_with("reduce/gradients"); }

}  // namespace

// A path without outputs leaves no entry: what counts is what came out.
void LedgerObserver::on_op(std::string_view path) {
  take_shown();
  if (handed_ && layer_of(path) != handed_->layer) take_handed();
}

void LedgerObserver::take_shown() {
  if (shown_.empty()) return;
  const std::vector<Fingerprint> values = device_.fingerprints(shown_);
  for (size_t i = 0; i < values.size(); ++i) columns_.values[shown_places_[i]] = values[i];
  shown_.clear();
  shown_places_.clear();
}

void LedgerObserver::take_handed() {
  if (!handed_) return;
  add(handed_->path, handed_->tensor, device_.fingerprint(handed_->value, handed_->first_index));
  handed_.reset();
}

void LedgerObserver::on_tensor(std::string_view path, std::string_view tensor_name,
                               const Tensor& tensor, uint64_t first_index) {
  if (only_shows(path)) {
    shown_places_.push_back(columns_.size());
    shown_.push_back({tensor, first_index, 0});
    add(path, tensor_name, {});
  } else if (depth_ == LedgerDepth::op || of_every_step(path, tensor_name)) {
    add(path, tensor_name, device_.fingerprint(tensor, first_index));
  } else if (depth_ == LedgerDepth::layer && !tensor_name.ends_with(".grad")) {
    handed_ = Handed{std::string(layer_of(path)), std::string(path), std::string(tensor_name),
                     tensor, first_index};
  }
}

void LedgerObserver::on_fact(std::string_view path, std::string_view name,
                             const Fingerprint& value) {
  if (depth_ == LedgerDepth::op || of_every_step(path, name)) add(path, name, value);
}

void LedgerObserver::add(std::string_view path, std::string_view tensor_name,
                         const Fingerprint& value) {
  columns_.add(names_.number_of(path, tensor_name), value);
}

void LedgerObserver::end_step() {
  take_shown();
  sink_(step_, names_, columns_);
  columns_.clear();
}

void record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps, LedgerDepth depth,
                   const LedgerObserver::Sink& sink, const std::function<StepResult()>& run_step) {
  step.reset(seed);
  continue_ledger(step, device, {0, steps, depth}, sink, run_step);
}

void continue_ledger(TrainStep& step, Device& device, const LedgerSteps& steps,
                     const LedgerObserver::Sink& sink,
                     const std::function<StepResult()>& run_step) {
  LedgerObserver observer(device, steps.depth, sink);
  const Observed observed(step, observer);
  observer.begin_step(steps.from - 1);
  add_state(step, observer);
  observer.end_step();
  for (int i = steps.from; i < steps.end; ++i) {
    observer.begin_step(i);
    const StepResult result = run_step ? run_step() : step.step();
    observer.add("result", "loss", of_scalar(result.loss));
    observer.add("result", "gradient_norm", of_scalar(result.gradient_norm));
    add_state(step, observer);
    observer.end_step();
  }
}

std::vector<LedgerEntry> record_ledger(TrainStep& step, Device& device, uint64_t seed, int steps) {
  std::vector<LedgerEntry> entries;
  const auto keep = [&](int64_t number, const LedgerNames& names, const LedgerColumns& columns) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const LedgerName& name = names.at(columns.names[i]);
      entries.push_back({number, name.path, name.tensor, columns.values[i]});
    }
  };
  record_ledger(step, device, seed, steps, LedgerDepth::op, keep);
  return entries;
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
