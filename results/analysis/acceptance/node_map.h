#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// A node beside the others of its fleet.
struct NodeMapRow {
  std::string node;
  int64_t cases = 0;                 // of which there is a record
  std::optional<double> fast_ratio;  // its fast step over the fleet's median, mean over cases
  std::optional<double>
      overhead_ratio;  // its deterministic step over its fast, mean over cases and arms
  std::optional<double> odd_ratio;  // that over the fleet's median
  int64_t claiming = 0,
          reproduced =
              0;  // arms that claim to reproduce their bits, over cases, and those that did
  Status status = Status::error;
  std::string
      verdict;  // reason code: acceptance's where it judged, else the worst of the node's records
  std::string words;  // why acceptance did not accept it, or in what it stands out
  bool odd = false;
};

// A row a node, odd ones first, then by name; nothing for fewer than two nodes. A node is odd if acceptance (acceptance_records among
// the records) did not accept it. Where acceptance did not judge, it is if a record of it failed or broke, or if one of its times
// stands out from at least three others by more than chance (1 % over the whole map). Means are geometric, over what was measured;
// records whose ranks lie on several nodes have no times here.
std::vector<NodeMapRow> node_map(const std::vector<const Record*>& records);

}  // namespace dettax
