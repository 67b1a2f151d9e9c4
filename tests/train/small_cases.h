#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/plan/case.h"
#include "harness/train/observer.h"
#include "harness/train/train_step.h"

namespace dettax::testing_support {

// Two layers, width 32, a vocabulary of 90 (padded to 128): small enough for the reference.
Model small_gpt();    // learned positions, layer norm, gelu, biases, tied head
Model small_llama();  // rope, rms norm, swiglu, grouped queries, own head
Model small_moe();    // small_llama with four experts, two a token
Case small_case(const Model& model);

Mode fast();
Mode deterministic();
Mode invariant();

// Runs body on every rank of the layout with a trainer of its own.
struct RankRun {
  TrainStep& train;
  Device& device;
  Communicator& communicator;
};
void train_on_ranks(const Case& planned, const Mode& mode,
                    const std::function<void(RankRun&)>& body);

// Fingerprints of everything a step shows, in program order, plus results and state under "result" and "state".
struct Entry {
  std::string path, tensor;
  Fingerprint value;
  friend bool operator==(const Entry&, const Entry&) = default;
};
using Log = std::vector<Entry>;

// reset, then `steps` steps of one rank.
Log record_rank(RankRun& rank, uint64_t seed, int steps);
// The same on every rank of the layout; one log a rank.
std::vector<Log> record(const Case& planned, const Mode& mode, int steps);
// Within one trainer: reset and one step, again and again under other delays, until a run differs from the first. What
// differs first, as first_difference says it; "" if nothing did in `runs` runs.
std::string difference_between_runs(const Case& planned, const Mode& mode, int runs);
// The same until a difference is seen, for as long as is bearable: whether two runs of a race differ is
// chance, and rare while other programs take a core away.
std::string difference_in_the_end(const Case& planned, const Mode& mode);

// Entries that do not depend on the layout: reduced gradients, results, state; of rank 0.
Log layout_free(const std::vector<Log>& logs);

// Path and tensor of the first difference, "" if there is none.
std::string first_difference(const std::vector<Log>& a, const std::vector<Log>& b);
std::string first_difference(const Log& a, const Log& b);

}  // namespace dettax::testing_support
