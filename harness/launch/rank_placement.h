#pragma once

#include <string>
#include <vector>

#include "harness/launch/machine.h"
#include "harness/plan/case.h"

namespace dettax {

// Where the ranks of a group sit.
enum class RankPlacement {
  planned,  // node by node in the order of the hosts, compute threads where the binding puts them
  // Elsewhere: dealt over the nodes in turn, hosts from the last to the first, and every compute
  // thread bound to a core from the last to the first, several to one where cores are few.
  swapped,
};

// Node of each rank where one process stands for all nodes; none for a single node.
std::vector<int> emulated_nodes(const Topology& topology, RankPlacement placement);

// Cores of the threads of a rank, the `local_rank`-th of `local_size` on its machine; empty where they
// are not bound. Error{config} as of cores_of_rank().
std::vector<int> placed_cores(RankPlacement placement, Binding binding,
                              const std::vector<int>& cores, int local_rank, int local_size,
                              int threads);

// Which core each thread of a rank is on, "3 2", or "any of 0-3" where it is bound to none. The same
// words of two groups: nothing was moved.
std::string seat_words(const std::vector<int>& bound, const std::vector<int>& usable, int threads);

}  // namespace dettax
