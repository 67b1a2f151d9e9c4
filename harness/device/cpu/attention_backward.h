#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include "harness/device/cpu/attention_blocks.h"
#include "harness/device/cpu/spin_lock.h"
#include "harness/device/cpu/team.h"

namespace dettax {

// The right to add to one tile of dQ: under the lock, or when it is the key block's turn. The first
// to come stores instead of adding, unless the call adds to what is there.
struct DqTile {
  SpinLock lock;
  bool begun = false;
  std::atomic<size_t> turn{0};

  void wait_for_turn(size_t key_block) const {
    while (turn.load(std::memory_order_acquire) != key_block) std::this_thread::yield();
  }
};
enum class DqOrder { one_thread, on_arrival, in_turn };

// Attention backward in items: a block of 64 keys of one key/value head of one sample each. The
// variants differ in which thread runs which item and in how items take turns at dQ.
struct AttentionBackwardWork {
  AttentionBlocks shape;
  float* dqkv;
  float* dkeys;  // as keys lie
  const float* qkv;
  const float* keys;
  const float* dout;
  const float* log_sum_exp;
  const float* projection;  // [samples, heads, tokens]: sum over a row of dout * out
  float scale;
  float* memory;  // memory_each floats for each thread
  size_t memory_each;
  DqOrder order = DqOrder::one_thread;
  DqTile* tiles = nullptr;  // [samples, heads, query blocks]; none for one_thread

  size_t heads() const { return shape.samples * shape.key_value_heads; }
  size_t tile_count() const { return shape.samples * shape.heads * shape.query_blocks(); }
  // head: [samples, key/value heads]. Under in_turn all earlier blocks of the head must be under way.
  void run_item(size_t head, size_t key_block, int thread) const;
};

void attention_backward_on_arrival(Team& team, AttentionBackwardWork work, bool dynamic);
void attention_backward_in_order(Team& team, AttentionBackwardWork work, bool dynamic);

}  // namespace dettax
