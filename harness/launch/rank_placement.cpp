#include "harness/launch/rank_placement.h"

#include "harness/base/text.h"

namespace dettax {

std::vector<int> emulated_nodes(const Topology& topology, RankPlacement placement) {
  std::vector<int> nodes;
  for (int rank = 0; topology.nodes > 1 && rank < topology.nodes * topology.ranks_per_node; ++rank)
    nodes.push_back(placement == RankPlacement::planned
                        ? rank / topology.ranks_per_node
                        : topology.nodes - 1 - rank % topology.nodes);
  return nodes;
}

std::vector<int> placed_cores(RankPlacement placement, Binding binding,
                              const std::vector<int>& cores, int local_rank, int local_size,
                              int threads) {
  if (placement == RankPlacement::planned)
    return cores_of_rank(binding, cores, local_rank, local_size, threads);
  std::vector<int> own;
  for (int thread = 0; thread < threads && !cores.empty(); ++thread) {
    const size_t place = static_cast<size_t>(local_rank) * static_cast<size_t>(threads) +
                         static_cast<size_t>(thread);
    own.push_back(cores[cores.size() - 1 - place % cores.size()]);
  }
  return own;
}

std::string seat_words(const std::vector<int>& bound, const std::vector<int>& usable, int threads) {
  std::vector<int> own = bound;
  // A single core is the only one there is, bound or not.
  if (own.empty() && usable.size() == 1) own.assign(static_cast<size_t>(threads), usable.front());
  if (own.empty()) return "any of " + core_list(usable);
  std::vector<std::string> words;
  for (const int core : own) words.push_back(std::to_string(core));
  return join(words, " ");
}

}  // namespace dettax
