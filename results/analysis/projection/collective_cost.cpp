#include "results/analysis/projection/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// NVIDIA/nccl 2.30.7 src/graph/tuning.cc, in seconds; Simple, LL and LL128.
struct Protocol {
  double ring_base, ring_link, ring_network;
  double tree_base, tree_link, tree_network;
  double bandwidth_ratio;
};
constexpr Protocol kProtocols[] = {
    {8.4e-6, 3.4e-6, 14.0e-6, 8.4e-6, 4.0e-6, 14.0e-6, 1.0},   // Simple
    {6.6e-6, 0.6e-6, 2.7e-6, 6.8e-6, 0.6e-6, 5.0e-6, 0.5},     // LL: half of each line is a flag
    {14.0e-6, 1.9e-6, 4.0e-6, 14.0e-6, 1.25e-6, 8.5e-6, 0.92}  // LL128
};
constexpr double kTreeBandwidthRatio = 0.92;
constexpr double kNvlsSeconds = 25e-6;
constexpr double kNvlsNetworkSeconds = 18e-6;
constexpr double kCollnetSeconds = 31e-6;
// Sums in the switch: each rank sends and receives the buffer once. What of the link that reaches, and from how many ranks on NCCL takes it
// (8xH200, 8xB200, NVL72: nccl_nvls_ablation.csv).
struct InSwitch {
  double link_ratio;
  int64_t fewest_ranks;
};
constexpr InSwitch kHopperSwitch{0.60, 5};
constexpr InSwitch kBlackwellSwitch{0.53, 6};
constexpr double kSharpGain =
    480.0 / 380.0;  // DGX H100 with and without InfiniBand SHARP, GTC24 S62129
constexpr double kNever = std::numeric_limits<double>::infinity();

// Bus bandwidth of a ring through this group: the slower of the link and the network, which has as many lanes as members in a domain.
double ring_bandwidth(const Hardware& m, const GroupShape& group) {
  const double link = m.link_bytes_per_second * m.efficiency.link_ratio;
  if (group.domains() == 1) return link;
  const auto lanes = static_cast<double>(group.per_domain);
  const double network = lanes * m.network_bytes_per_second * m.efficiency.network_ratio;
  return group.per_domain == 1 ? network : std::min(link, network);
}

// What one rank sends in a ring, over the buffer.
double ring_share(CollectiveKind collective, double ranks) {
  const double once = (ranks - 1) / ranks;
  return collective == CollectiveKind::all_reduce ? 2 * once : once;
}

double ring_seconds(const Hardware& m, CollectiveKind collective, double bytes,
                    const GroupShape& g) {
  const auto ranks = static_cast<double>(g.ranks);
  const double rounds = collective == CollectiveKind::all_reduce ? 2 : 1;
  const double network_steps = g.domains() > 1 ? rounds * static_cast<double>(g.domains() - 1) : 0;
  const double link_steps = std::max(0.0, rounds * (ranks - 1) - network_steps);
  const double transfer = ring_share(collective, ranks) * bytes / ring_bandwidth(m, g);
  double best = kNever;
  for (const Protocol& p : kProtocols) {
    const double latency = p.ring_base + link_steps * p.ring_link + network_steps * p.ring_network;
    best = std::min(best, latency + transfer / p.bandwidth_ratio);
  }
  return best;
}

double tree_seconds(const Hardware& m, double bytes, const GroupShape& g) {
  const auto ranks = static_cast<double>(g.ranks);
  const double depth = std::ceil(std::log2(static_cast<double>(g.domains())));
  const double hops = static_cast<double>(g.per_domain - 1);
  const double transfer =
      ring_share(CollectiveKind::all_reduce, ranks) * bytes / ring_bandwidth(m, g);
  double best = kNever;
  for (const Protocol& p : kProtocols) {
    const double latency = p.tree_base + 2 * (hops * p.tree_link + depth * p.tree_network);
    best = std::min(best, latency + transfer / (p.bandwidth_ratio * kTreeBandwidthRatio));
  }
  return best;
}

// Between domains rings (nvls) or trees (nvls_tree) over what one domain has summed.
double nvls_seconds(const Hardware& m, double bytes, const GroupShape& g, bool tree) {
  const InSwitch& in_switch =
      m.generation == Generation::blackwell ? kBlackwellSwitch : kHopperSwitch;
  if (!m.multicast || g.per_domain < in_switch.fewest_ranks) return kNever;
  const double inside = bytes / (m.link_bytes_per_second * in_switch.link_ratio);
  if (g.domains() == 1) return tree ? kNever : kNvlsSeconds + inside;
  const double lanes = static_cast<double>(g.per_domain) * m.network_bytes_per_second;
  const double share = ring_share(CollectiveKind::all_reduce, static_cast<double>(g.ranks));
  const double outside = share * bytes / (lanes * m.efficiency.network_ratio);
  const double domains = static_cast<double>(g.domains());
  const double steps = tree ? 2 * std::ceil(std::log2(domains)) : 2 * (domains - 1);
  const double transfer = std::max(inside, outside) / (tree ? kTreeBandwidthRatio : 1.0);
  return kNvlsSeconds + steps * kNvlsNetworkSeconds + transfer;
}

double collnet_seconds(const Hardware& m, double bytes, const GroupShape& g) {
  if (!m.network_adds || g.domains() == 1) return kNever;
  const double outside = ring_bandwidth(m, g) * kSharpGain;
  const double transfer =
      ring_share(CollectiveKind::all_reduce, static_cast<double>(g.ranks)) * bytes / outside;
  return kCollnetSeconds + static_cast<double>(g.per_domain - 1) * 3.7e-6 + transfer;
}

// Each rank sends a piece to each other; what leaves the domain shares the network of this rank alone.
double all_to_all_seconds(const Hardware& m, double bytes, const GroupShape& g) {
  const auto ranks = static_cast<double>(g.ranks);
  const double near = static_cast<double>(std::min(g.per_domain, g.ranks) - 1) / ranks;
  const double far = 1 - near - 1 / ranks;
  const double link = m.link_bytes_per_second * m.efficiency.link_ratio;
  const double network = m.network_bytes_per_second * m.efficiency.network_ratio;
  const double latency = 8.4e-6 + (g.domains() > 1 ? 14e-6 + 0.3e-6 * ranks : 0.3e-6 * ranks);
  const double transfer = std::max(near * bytes / link, far > 0 ? far * bytes / network : 0);
  return latency + transfer / m.efficiency.all_to_all_ratio;
}

double point_to_point_seconds(const Hardware& m, double bytes, const GroupShape& g) {
  const bool inside = g.domains() == 1;
  const double bandwidth = inside ? m.link_bytes_per_second * m.efficiency.link_ratio
                                  : m.network_bytes_per_second * m.efficiency.network_ratio;
  return (inside ? 8.4e-6 : 20e-6) + bytes / bandwidth;
}

void require_links(const Hardware& m, const GroupShape& g) {
  const bool outside = g.domains() > 1;
  if (outside ? m.network_bytes_per_second > 0 : m.link_bytes_per_second > 0) return;
  throw Error(ErrorKind::config,
              fmt::format("cluster {}: {} ranks need hardware.{}, which is missing", m.name,
                          g.ranks, outside ? "network_bytes_per_second" : "link_bytes_per_second"));
}

}  // namespace

const char* to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      return "Ring";
    case CollectiveAlgorithm::tree:
      return "Tree";
    case CollectiveAlgorithm::nvls:
      return "NVLS";
    case CollectiveAlgorithm::nvls_tree:
      return "NVLSTree";
    case CollectiveAlgorithm::collnet:
      return "CollNet";
  }
  return "?";
}

AlgorithmSet AlgorithmSet::named(const std::string& nccl_algo) {
  const bool without = nccl_algo.starts_with('^');
  AlgorithmSet set(without ? 0x1FU : 0U);
  static const std::vector<std::string> kWords = {"Ring",     "Tree",          "NVLS",
                                                  "NVLSTree", "CollnetDirect", "CollnetChain"};
  // NCCL also takes lists by collective, "allreduce:tree"; the all-reduce is the one with a choice.
  const size_t colon = nccl_algo.find(':');
  const std::string list =
      colon == std::string::npos ? nccl_algo.substr(without ? 1 : 0) : nccl_algo.substr(colon + 1);
  for (const std::string& word : split(list, ',')) {
    size_t index = 0;
    const auto same = [&](const std::string& known) {
      return known.size() == word.size() &&
             std::equal(known.begin(), known.end(), word.begin(),
                        [](char a, char b) { return (a | 0x20) == (b | 0x20); });
    };
    while (index < kWords.size() && !same(kWords[index])) ++index;
    if (index == kWords.size()) {
      throw Error(ErrorKind::config, fmt::format("NCCL_ALGO: there is no algorithm \"{}\"{}", word,
                                                 did_you_mean(word, kWords)));
    }
    const auto algorithm = static_cast<CollectiveAlgorithm>(std::min<size_t>(index, 4));
    if (without) {
      set.remove(algorithm);
    } else {
      set.bits_ |= only(algorithm).bits_;
    }
  }
  return set;
}

GroupShape group_shape(const Hardware& machine, int64_t ranks, int64_t stride) {
  const int64_t near = std::max<int64_t>(1, machine.link_domain / std::max<int64_t>(1, stride));
  // A domain that the group does not fill evenly is as many members as fit.
  return {ranks, std::min(near, ranks)};
}

CollectiveChoice choose_collective(const Hardware& machine, CollectiveKind collective, double bytes,
                                   const GroupShape& group, const AlgorithmSet& allowed) {
  if (group.ranks <= 1) return {};
  require_links(machine, group);
  if (collective == CollectiveKind::all_to_all)
    return {all_to_all_seconds(machine, bytes, group), CollectiveAlgorithm::ring};
  if (collective == CollectiveKind::point_to_point)
    return {point_to_point_seconds(machine, bytes, group), CollectiveAlgorithm::ring};
  CollectiveChoice best{kNever, CollectiveAlgorithm::ring};
  const auto offer = [&](CollectiveAlgorithm algorithm, double seconds) {
    if (allowed.has(algorithm) && seconds < best.seconds) best = {seconds, algorithm};
  };
  offer(CollectiveAlgorithm::ring, ring_seconds(machine, collective, bytes, group));
  if (collective == CollectiveKind::all_reduce) {
    offer(CollectiveAlgorithm::tree, tree_seconds(machine, bytes, group));
    offer(CollectiveAlgorithm::nvls, nvls_seconds(machine, bytes, group, false));
    offer(CollectiveAlgorithm::nvls_tree, nvls_seconds(machine, bytes, group, true));
    offer(CollectiveAlgorithm::collnet, collnet_seconds(machine, bytes, group));
  }
  // Gathering and scattering run as rings whatever NCCL_ALGO says; an all-reduce that nothing allowed can do falls back to it too.
  if (best.seconds == kNever) best.seconds = ring_seconds(machine, collective, bytes, group);
  return best;
}

double collective_seconds(const Hardware& machine, CollectiveKind collective, double bytes,
                          const GroupShape& group, const AlgorithmSet& allowed) {
  if (group.ranks <= 1) return 0;
  return choose_collective(machine, collective, bytes, group, allowed).seconds +
         machine.efficiency.collective_seconds;
}

}  // namespace dettax
