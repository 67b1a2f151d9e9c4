// The fast twin of place_in_order: chunks of tokens claim rows of an expert as threads come to them, so
// that the rows of an expert, and with them the sums of its weight gradients, are in order of arrival.

#include <algorithm>
#include <atomic>
#include <vector>

#include "harness/device/cpu/expert_rows.h"

namespace dettax {
namespace {

constexpr int64_t kChunkTokens = 32;

}  // namespace

void place_on_arrival(Team& team, const Placement& p, bool dynamic) {
  const auto experts = static_cast<size_t>(p.expert_count);
  std::vector<int32_t> cursors(experts);
  for (size_t e = 0; e < experts; ++e) cursors[e] = p.segment(static_cast<int64_t>(e), 0);
  std::vector<std::vector<int32_t>> claims(static_cast<size_t>(team.size()),
                                           std::vector<int32_t>(experts));
  const auto place = [&](int64_t begin, int64_t end, std::vector<int32_t>& claimed) {
    std::fill(claimed.begin(), claimed.end(), 0);
    for (int64_t i = begin; i < end; ++i) {
      if (p.slots[i] >= 0) ++claimed[static_cast<size_t>(p.experts[i])];
    }
    for (size_t e = 0; e < experts; ++e) {
      if (claimed[e] == 0) continue;
      claimed[e] =
          std::atomic_ref<int32_t>(cursors[e]).fetch_add(claimed[e], std::memory_order_relaxed);
    }
    for (int64_t i = begin; i < end; ++i) {
      if (p.slots[i] < 0) continue;
      p.slots[i] = claimed[static_cast<size_t>(p.experts[i])]++;
      p.sources[p.slots[i]] = static_cast<int32_t>(i);
    }
  };
  const int64_t chunk = kChunkTokens * p.choices;
  const int64_t choices = p.samples * p.tokens_per_sample * p.choices;
  team.parallel_for(choices, chunk, dynamic, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; i += chunk) {
      place(i, std::min(end, i + chunk), claims[static_cast<size_t>(thread)]);
    }
  });
}

}  // namespace dettax
