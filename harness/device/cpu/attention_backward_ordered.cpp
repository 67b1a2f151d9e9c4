// The deterministic twin of attention_backward_arrival.cpp, ordered and invariant: all blocks of a head
// belong to one thread, which goes through them in key order; no locks. Where heads are too few to
// share out, blocks are, and each waits for its turn at a tile of dQ: the same order, so the same bits.
// Nothing depends on threads or on other samples.

#include <vector>

#include "harness/device/cpu/attention_backward.h"
#include "harness/device/cpu/fill_threads.h"
#include "harness/device/cpu/own_part_first.h"

namespace dettax {
namespace {

void by_head(Team& team, const AttentionBackwardWork& work, bool dynamic) {
  const auto run_head = [&](size_t head, int thread) {
    for (size_t block = 0; block < work.shape.key_blocks(); ++block) {
      work.run_item(head, block, thread);
    }
  };
  if (dynamic) return own_part_first(team, work.heads(), 1, run_head);
  team.run([&](int thread) {
    const auto own =
        part_of(work.heads(), static_cast<size_t>(thread), static_cast<size_t>(team.size()));
    for (size_t head = own.begin; head < own.end; ++head) run_head(head, thread);
  });
}

}  // namespace

void attention_backward_in_order(Team& team, AttentionBackwardWork work, bool dynamic) {
  if (fill_threads(static_cast<int64_t>(work.heads()), team.size())) {
    work.order = DqOrder::one_thread;
    return by_head(team, work, dynamic);
  }
  std::vector<DqTile> tiles(work.tile_count());
  work.tiles = tiles.data();
  work.order = DqOrder::in_turn;
  const size_t blocks = work.shape.key_blocks();
  own_part_first(team, work.heads(), blocks, [&](size_t item, int thread) {
    work.run_item(item / blocks, item % blocks, thread);
  });
}

}  // namespace dettax
