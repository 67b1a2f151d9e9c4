#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/analysis/acceptance/findings.h"

namespace dettax {

// A node's place in one comparison: the mean over its runs.
struct PeerMember {
  const NodeObservation* one = nullptr;  // of its first run
  PeerValue value;
  std::vector<PeerValue> runs;
  int64_t attempts = 0;
};

// What is compared in one case, node by node.
struct PeerGroup {
  std::string case_id, arm;  // arm empty: the fast step; else its ratio
  std::vector<PeerMember> members;
  bool fast() const { return arm.empty(); }
  std::string quantity() const { return fast() ? "the fast step" : "the ratio of " + arm; }
  std::vector<PeerValue> values() const;
};

// Of records whose ranks lie on one node, within equal settings, by case and arm.
std::vector<PeerGroup> peer_groups(const std::vector<NodeObservation>& all,
                                   const FleetSetup& setup);

}  // namespace dettax
