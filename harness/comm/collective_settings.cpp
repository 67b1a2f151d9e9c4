#include "harness/comm/collective_settings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr std::array<std::string_view, kAlgorithms> kNames{"direct", "ring", "tree", "halving",
                                                           "hierarchical"};

void require_valid(const Link& link, const std::string& name) {
  if (!std::isfinite(link.latency_seconds) || link.latency_seconds < 0)
    throw Error(ErrorKind::config, name + ": latency must be 0 s or more");
  if (!std::isfinite(link.bytes_per_second) || link.bytes_per_second < 0)
    throw Error(ErrorKind::config, name + ": bandwidth must be 0 (unlimited) or more bytes/s");
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) {
  return kNames[static_cast<size_t>(algorithm)];
}

std::optional<Algorithm> find_algorithm(std::string_view name) {
  const auto* const at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Algorithm>(at - kNames.begin());
}

void require_valid(const CollectiveSettings& settings, int ranks) {
  const auto nodes = static_cast<int>(settings.node_of_rank.size());
  if (nodes != 0 && nodes != ranks)
    throw Error(ErrorKind::config, "nodes are given for " + std::to_string(nodes) +
                                       " ranks, but there are " + std::to_string(ranks));
  if (std::ranges::any_of(settings.node_of_rank, [](int node) { return node < 0; }))
    throw Error(ErrorKind::config, "a node's number must be 0 or more");
  require_valid(settings.intra_node, "link inside a node");
  require_valid(settings.inter_node, "link between nodes");
}

}  // namespace dettax
