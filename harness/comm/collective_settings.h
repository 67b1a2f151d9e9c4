#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/link.h"

namespace dettax {

// How all-reduce, reduce-scatter and all-gather go about it. What the sum is added in under
// Order::ordered:
//  direct        every rank gets all others' share of its part, adds in rank order, hands it out
//  ring          part p begins at rank p + 1 and is added to from rank to rank
//  tree          a binary tree with rank r's children at 2r + 1 and 2r + 2; pieces follow each other
//  halving       recursive halving and doubling: pairs of neighbours first, then pairs of pairs.
//  Ranks beyond a power of two are added to those below first; reduce-scatter and all-gather then
//  take the ring
//  hierarchical  inside the node in rank order, then across nodes in their order. Where all ranks
//  are on one node, and for reduce-scatter and all-gather on nodes of different size: direct
// Under Order::arrival direct, hierarchical and tree take what is there first; in ring and halving
// never more than two shares meet, so they have one order only. Order::invariant has the bits of
// its tree under each: halving with a power of two of ranks, and hierarchical with nodes of the
// same power of two of neighbours, add in that order by themselves, else it goes the direct way.
enum class Algorithm { direct, ring, tree, halving, hierarchical };
inline constexpr int kAlgorithms = 5;
std::string_view algorithm_name(Algorithm algorithm);
std::optional<Algorithm> find_algorithm(std::string_view name);

struct CollectiveSettings {
  Algorithm algorithm = Algorithm::direct;
  std::vector<int> node_of_rank;  // none: all on one node
  // Links that are emulated on one machine by waiting, without using the core. Whatever one rank
  // sends inside its node, and all that one node sends to others, shares one link each.
  Link intra_node, inter_node;
  bool emulates_links() const { return intra_node.limited() || inter_node.limited(); }
};
// Throws Error{config} where the settings do not fit `ranks` ranks.
void require_valid(const CollectiveSettings& settings, int ranks);

}  // namespace dettax
