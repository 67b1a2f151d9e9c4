#include "harness/comm/link_emulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <type_traits>

namespace dettax {
namespace {

constexpr double kNs = 1e9;

}  // namespace

static_assert(std::is_same_v<std::chrono::steady_clock::duration, std::chrono::nanoseconds>);

int64_t steady_now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

LinkEmulation::LinkEmulation(const CollectiveSettings& settings, int ranks, bool senders_share)
    : intra_node_(settings.intra_node),
      inter_node_(settings.inter_node),
      active_(settings.emulates_links()),
      senders_share_(senders_share),
      node_of_rank_(settings.node_of_rank),
      rank_free_at_ns_(static_cast<size_t>(ranks)) {
  if (node_of_rank_.empty()) node_of_rank_.assign(static_cast<size_t>(ranks), 0);
  const int last_node = *std::ranges::max_element(node_of_rank_);
  node_free_at_ns_ = std::vector<std::atomic<int64_t>>(static_cast<size_t>(last_node) + 1);
}

double LinkEmulation::share(int rank) const {
  if (!senders_share_) return 1;
  const int node = node_of_rank_[static_cast<size_t>(rank)];
  return 1.0 / static_cast<double>(std::ranges::count(node_of_rank_, node));
}

int64_t LinkEmulation::arrival_ns(int from, int to, int64_t bytes, int64_t ready_ns) {
  if (from == to) return ready_ns;
  const auto node = static_cast<size_t>(node_of_rank_[static_cast<size_t>(from)]);
  const bool inside = static_cast<int>(node) == node_of_rank_[static_cast<size_t>(to)];
  const Link& link = inside ? intra_node_ : inter_node_;
  const auto latency_ns = std::llround(link.latency_seconds * kNs);
  if (link.bytes_per_second <= 0) return ready_ns + latency_ns;
  const double rate = link.bytes_per_second * (inside ? 1 : share(from));
  const auto busy_ns = std::llround(std::ceil(static_cast<double>(bytes) / rate * kNs));
  auto& free_at_ns = inside ? rank_free_at_ns_[static_cast<size_t>(from)] : node_free_at_ns_[node];
  int64_t free = free_at_ns.load();
  while (!free_at_ns.compare_exchange_weak(free, std::max(free, ready_ns) + busy_ns)) {
  }
  return std::max(free, ready_ns) + busy_ns + latency_ns;
}

}  // namespace dettax
