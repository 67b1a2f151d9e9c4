#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/analysis/acceptance/peers.h"
#include "results/record.h"

namespace dettax {

// One record as acceptance takes it: with how often its case was started.
struct AcceptanceInput {
  Record record;
  int attempts = 1;
};

// A rank's step time over its record's median rank (the lower one of an even number), as a logarithm.
struct RankObservation {
  int rank = 0;
  std::string node;
  PeerValue excess;
};

// What a record says of its node and case; values are logarithms, absent where there is none that counts.
struct NodeObservation {
  std::string node;
  std::string case_id;
  const Record* record = nullptr;
  int attempts = 1;
  std::optional<PeerValue> fast_seconds;
  std::map<std::string, PeerValue> overhead;  // arm -> ratio; published taxes that count
  std::vector<RankObservation> ranks;         // of the fast arm; empty with one rank
  bool one_node = true;  // false: its ranks lie on several, so that its times are of no node alone
};

// The node a record belongs to: that of its ranks if they share one, else the host that started it.
std::string node_of(const Record& record);

// The logarithm of an estimate with its standard error, from the width of its interval at the usual 95 % and its count.
PeerValue log_of(const Estimate& estimate);

// Sorted by node, case and run, so that the order of the inputs does not matter. Pointers are into `inputs`. A record without an
// environment (a planned case that has no result) belongs to the node of its run.
std::vector<NodeObservation> observe(const std::vector<AcceptanceInput>& inputs);
// The same of records that took one attempt each.
std::vector<NodeObservation> observe(const std::vector<const Record*>& records);

}  // namespace dettax
