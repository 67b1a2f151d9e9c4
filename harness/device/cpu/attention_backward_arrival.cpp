// The fast twin of attention_backward_ordered.cpp: blocks of a head go to several threads, which add to
// dQ under a lock in order of arrival.

#include <algorithm>
#include <vector>

#include "harness/device/cpu/attention_backward.h"
#include "harness/device/cpu/own_part_first.h"

namespace dettax {
namespace {

// With a fixed schedule each thread leaves the last block of its heads, which has the fewest queries,
// to its neighbour. More in common would cost: what is read and added to would move between cores.
void leave_last_blocks(Team& team, const AttentionBackwardWork& work) {
  const size_t blocks = work.shape.key_blocks();
  const auto threads = static_cast<size_t>(team.size());
  const bool leave = blocks >= 3 && threads > 1;
  team.run([&](int thread) {
    const auto own = part_of(work.heads(), static_cast<size_t>(thread), threads);
    const auto left = part_of(work.heads(), (static_cast<size_t>(thread) + 1) % threads, threads);
    for (size_t i = 0; i < std::max(own.size(), left.size()); ++i) {
      for (size_t block = 0; block < blocks; ++block) {
        const bool mine = i < own.size() && !(leave && block == blocks - 1);
        if (mine) work.run_item(own.begin + i, block, thread);
        // Half-way, when the neighbour is among the blocks that add to the same queries.
        const bool his = leave && block == blocks / 2 && i < left.size();
        if (his) work.run_item(left.begin + i, blocks - 1, thread);
      }
    }
  });
}

}  // namespace

void attention_backward_on_arrival(Team& team, AttentionBackwardWork work, bool dynamic) {
  std::vector<DqTile> tiles(work.tile_count());
  for (DqTile& tile : tiles) tile.begun = !work.shape.causal;
  work.tiles = tiles.data();
  work.order = DqOrder::on_arrival;
  if (!dynamic) return leave_last_blocks(team, work);
  const size_t blocks = work.shape.key_blocks();
  own_part_first(team, work.heads(), blocks, [&](size_t item, int thread) {
    work.run_item(item / blocks, item % blocks, thread);
  });
}

}  // namespace dettax
