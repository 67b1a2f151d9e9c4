#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "harness/comm/algorithms.h"

namespace dettax {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

// Nodes in the order of their first ranks.
std::vector<std::vector<int>> members_by_node(const std::vector<int>& node_of_rank) {
  std::map<int, size_t> index;
  std::vector<std::vector<int>> members;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [at, added] = index.emplace(node_of_rank[rank], members.size());
    if (added) members.emplace_back();
    members[at->second].push_back(static_cast<int>(rank));
  }
  return members;
}

std::vector<Range> in_bytes(std::vector<Range> parts) {
  for (Range& part : parts) part = {part.begin * kFloat, part.end * kFloat};
  return parts;
}

}  // namespace

bool Hierarchy::exists(const std::vector<int>& node_of_rank) {
  const std::set<int> nodes(node_of_rank.begin(), node_of_rank.end());
  return nodes.size() > 1 && nodes.size() < node_of_rank.size();
}

Hierarchy::Hierarchy(Transport& whole)
    : size_(whole.size()), members_(members_by_node(whole.node_of_rank())) {
  const auto [smallest, largest] =
      std::ranges::minmax(members_, {}, [](const std::vector<int>& ranks) { return ranks.size(); });
  lanes_ = static_cast<int>(smallest.size());
  even_ = smallest.size() == largest.size();
  continues_tree_ = even_ && power_of_two(lanes_);
  for (size_t node = 0; node < members_.size(); ++node) {
    const auto& ranks = members_[node];
    continues_tree_ = continues_tree_ && ranks.front() == static_cast<int>(node) * lanes_ &&
                      ranks.back() - ranks.front() + 1 == lanes_;
  }
  const int node = whole.node_of_rank()[static_cast<size_t>(whole.rank())];
  inside_ = whole.split(node, whole.rank());
  across_ = whole.split(std::min(inside_->rank(), lanes_), node_index(whole.rank()));
}

// Position of the rank's node, the order across nodes.
int Hierarchy::node_index(int rank) const {
  const auto at = std::ranges::find_if(members_, [rank](const std::vector<int>& ranks) {
    return std::ranges::find(ranks, rank) != ranks.end();
  });
  return static_cast<int>(at - members_.begin());
}

void Hierarchy::all_reduce(float* data, int64_t count, Order order) {
  auto parts = cut(count, lanes_);
  parts.resize(static_cast<size_t>(inside_->size()), {count, count});
  const Range part = parts[static_cast<size_t>(inside_->rank())];
  float* own = data + part.begin;
  inside_->reduce({data, own, parts, order, false});
  if (on_lane()) across_->reduce({own, own, cut(part.size(), across_->size()), order, true});
  inside_->gather(own, data, in_bytes(parts));
}

void Hierarchy::reduce_scatter(const float* in, float* out, int64_t count, Order order) {
  const int nodes = across_->size();
  float* packed = at_least(packed_, count * size_);
  for (int lane = 0; lane < lanes_; ++lane) {
    for (int node = 0; node < nodes; ++node)
      std::copy_n(in + rank_at(lane, node) * count, count, packed + (lane * nodes + node) * count);
  }
  float* mine = at_least(lane_, count * nodes);
  inside_->reduce({packed, mine, equal_parts(count * nodes, lanes_), order, false});
  across_->reduce({mine, out, equal_parts(count, nodes), order, false});
}

void Hierarchy::all_gather(const void* in, void* out, int64_t bytes) {
  const int nodes = across_->size();
  const int64_t floats = (bytes + kFloat - 1) / kFloat;  // room for a part of any size
  char* mine = reinterpret_cast<char*>(at_least(lane_, floats * nodes));
  char* packed = reinterpret_cast<char*>(at_least(packed_, floats * size_));
  across_->gather(in, mine, equal_parts(bytes, nodes));
  inside_->gather(mine, packed, equal_parts(bytes * nodes, lanes_));
  if (bytes == 0) return;
  for (int lane = 0; lane < lanes_; ++lane) {
    for (int node = 0; node < nodes; ++node)
      std::memcpy(static_cast<char*>(out) + rank_at(lane, node) * bytes,
                  packed + (lane * nodes + node) * bytes, static_cast<size_t>(bytes));
  }
}

void Hierarchy::abandon() {
  inside_->abandon();
  across_->abandon();
}

void Hierarchy::set_spin(bool spin) {
  inside_->set_spin(spin);
  across_->set_spin(spin);
}

}  // namespace dettax
