#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "harness/comm/collective_settings.h"

namespace dettax {

int64_t steady_now_ns();

// When transfers over the links of the settings would be there. The one object of all ranks of an
// address space: what goes over a link queues on it.
class LinkEmulation {
 public:
  // `senders_share`: each rank has an object of its own, which knows nothing of what its neighbours
  // send, and so gets its share of the node's link.
  LinkEmulation(const CollectiveSettings& settings, int ranks, bool senders_share = false);

  bool active() const { return active_; }
  const std::vector<int>& node_of_rank() const { return node_of_rank_; }
  // Ranks as the settings count them. Takes up the link.
  int64_t arrival_ns(int from, int to, int64_t bytes, int64_t ready_ns);

 private:
  double share(int rank) const;

  const Link intra_node_, inter_node_;
  const bool active_, senders_share_;
  std::vector<int> node_of_rank_;
  std::vector<std::atomic<int64_t>> rank_free_at_ns_, node_free_at_ns_;
};

}  // namespace dettax
