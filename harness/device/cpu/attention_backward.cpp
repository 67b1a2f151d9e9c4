// Causal attention, backward. An item is a block of 64 keys of one key/value head of one sample: it
// goes through the queries from its diagonal on, recomputes the probabilities from log_sum_exp, keeps
// the sums of dK and dV to itself and adds a tile to dQ for each block of queries. Keys are the lanes,
// so keys and values are packed once for an item and queries are read where they lie. The variants
// differ in who owns dQ:
//   arrival  items are handed out one by one, so that threads work on different keys of one head at
//            the same time; they add to dQ under a lock in order of arrival
//   ordered  all items of a head belong to one thread, which goes through them in key order; no locks.
//            Where heads are too few to share out, items are handed out one by one and each waits for
//            its turn at a tile: the same order, so the same bits
// and invariant is ordered: nothing in it depends on threads or on other samples.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "harness/device/cpu/attention_shape.h"
#include "harness/device/cpu/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/fill_threads.h"
#include "harness/device/cpu/spin_lock.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/attention_tile-inl.h"
#include "hwy/cache_control.h"

#ifndef DETTAX_CPU_ATTENTION_BACKWARD_TYPES
#define DETTAX_CPU_ATTENTION_BACKWARD_TYPES
namespace dettax {
namespace {

// The right to add to one tile of dQ: under the lock, or when it is the key block's turn. The first
// to come stores instead of adding.
struct TileOwner {
  SpinLock lock;
  bool begun = false;
  std::atomic<size_t> turn{0};

  void wait_for_turn(size_t key_block) const {
    while (turn.load(std::memory_order_acquire) != key_block) std::this_thread::yield();
  }
};
enum class DqOrder { one_thread, on_arrival, in_turn };

struct BackwardCall {
  AttentionShape shape;
  float* dqkv;
  const float* qkv;
  const float* dout;
  const float* log_sum_exp;
  const float* projection;  // [samples, heads, tokens]: sum over a row of dout * out
  float scale;
  TileOwner* owners;  // [samples, heads, blocks]; none for one_thread
  DqOrder order;
};

}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

float row_product(const float* a, const float* b, size_t width) {
  return row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    return mul_add(access.read(a + i), access.read(b + i), partial);
  });
}

struct BackwardMemory {
  float* keys_by_width;    // [width, 64], scaled
  float* values_by_width;  // [width, 64]
  float* keys;             // [64, padded width], scaled
  float* dkeys;            // [width, 64]: transposed, without the scale
  float* dvalues;          // [width, 64]: transposed
  float* dqueries;         // [64, padded width]
  float* probabilities;    // [64 queries, 64 keys]
  float* dscores;          // [64 queries, 64 keys]
  float* queries;          // padded copies of a last block
  float* dout;
};

// A block of queries against the item's block of keys.
struct Pair {
  size_t queries, query_rows;  // valid ones; rounded up to 4
  size_t columns;              // valid keys rounded up to 16
  bool diagonal;
  // Keys that causality leaves to the four queries from q on, rounded up to 16.
  size_t columns_of(size_t q) const {
    return diagonal ? std::min(columns, q / kLanes * kLanes + kLanes) : columns;
  }
};

// out[query, key] = left row . packed column.
void pair_products(const LeftOperand& left, const float* packed, float* out, const Pair& pair,
                   size_t width) {
  for (size_t q = 0; q < pair.query_rows; q += kTileRows) {
    tile_row(left.at(q, 0), packed, kBlock, width, out + q * kBlock, kBlock, pair.columns_of(q),
             false);
  }
}

// Scores become probabilities, and their gradients those of the scores.
void softmax_gradient(const BackwardMemory& m, const Pair& pair, const float* log_sum_exp,
                      const float* projection) {
  for (size_t q = 0; q < pair.queries; ++q) {
    const Lanes shift = set(log_sum_exp[q]);
    const Lanes mean = set(projection[q]);
    float* p = m.probabilities + q * kBlock;
    float* ds = m.dscores + q * kBlock;
    const size_t columns = pair.columns_of(q);
    for (size_t c = 0; c < columns; c += kLanes) {
      // min(0): a score may exceed log_sum_exp by rounding when one key has all the weight.
      const Lanes probability = exp_nonpositive(each_part([&](size_t i) {
        return hn::Min(hn::Zero(FloatTag()), hn::Sub(load(p + c).part[i], shift.part[i]));
      }));
      store(probability, p + c);
      store(mul(probability, sub(load(ds + c), mean)), ds + c);
    }
    if (!pair.diagonal) continue;
    std::fill(p + q + 1, p + columns, 0.0f);
    std::fill(ds + q + 1, ds + columns, 0.0f);
  }
  for (size_t q = pair.queries; q < pair.query_rows; ++q) {
    std::fill_n(m.probabilities + q * kBlock, kBlock, 0.0f);
    std::fill_n(m.dscores + q * kBlock, kBlock, 0.0f);
  }
}

// sums[i, key] (+)= sum over queries of left[query, i] * weights[query, key].
void sum_over_queries(const LeftOperand& left, const float* weights, float* sums, const Pair& pair,
                      size_t width, bool accumulate) {
  for (size_t i = 0; i < width; i += kTileRows) {
    float* to = sums + i * kBlock;
    if (!pair.diagonal) {
      tile_row(left.at(i, 0), weights, kBlock, pair.query_rows, to, kBlock, pair.columns,
               accumulate);
      continue;
    }
    // Sixteen queries at a time, and of the keys only those that they see. The first of them see
    // only the first keys, so the others are cleared if this is the first block of all.
    if (!accumulate) {
      for (size_t r = 0; r < kTileRows; ++r) std::fill_n(to + r * kBlock, pair.columns, 0.0f);
    }
    for (size_t q = 0; q < pair.query_rows; q += kLanes) {
      tile_row(left.at(i, q), weights + q * kBlock, kBlock, std::min(kLanes, pair.query_rows - q),
               to, kBlock, pair.columns_of(q), true);
    }
  }
}

// Rows of a wide matrix lie pages apart, which no hardware prefetcher follows.
struct Rows {
  const float* data;
  size_t step, count, width;
  HWY_INLINE void prefetch(size_t first) const {
    for (size_t r = first; r < std::min(count, first + kTileRows); ++r) {
      for (size_t i = 0; i < width; i += kLanes) hwy::Prefetch(data + r * step + i);
    }
  }
};

// dqueries[query, i] = sum over keys of dscores[query, key] * keys[key, i]. Meanwhile the rows that
// they will be added to, which another core may have changed last, come into the cache.
void query_gradient(const BackwardMemory& m, const Pair& pair, size_t padded, const Rows& target) {
  const LeftOperand left{m.dscores, kBlock, 1};
  for (size_t q = 0; q < pair.query_rows; q += kTileRows) {
    target.prefetch(q);
    tile_row(left.at(q, 0), m.keys, padded, pair.columns_of(q), m.dqueries + q * padded, padded,
             padded, false);
  }
}

void add_query_gradient(const BackwardMemory& m, const Pair& pair, size_t padded, float* to,
                        size_t step, size_t width, bool first) {
  for (size_t q = 0; q < pair.queries; ++q) {
    const float* from = m.dqueries + q * padded;
    float* row = to + q * step;
    for_each_lanes(width, [&](auto access, size_t i) {
      const Lanes v = access.read(from + i);
      access.write(first ? v : add(access.read(row + i), v), row + i);
    });
  }
}

BackwardMemory divide(float* memory, size_t padded) {
  const size_t panel = padded * kBlock;
  BackwardMemory m{};
  float** parts[] = {&m.keys_by_width, &m.values_by_width, &m.keys,    &m.dkeys,
                     &m.dvalues,       &m.dqueries,        &m.queries, &m.dout};
  for (float** part : parts) {
    *part = memory;
    memory += panel;
  }
  m.probabilities = memory;
  m.dscores = memory + kBlock * kBlock;
  return m;
}

struct Item {
  size_t sample, key_value_head, key_block, keys;  // keys: valid ones in the block
};

void pack_keys(const BackwardCall& a, const BackwardMemory& m, const Item& item, size_t padded) {
  const AttentionShape& s = a.shape;
  const size_t head = item.key_value_head * s.group();
  const float* rows = a.qkv + (item.sample * s.tokens + item.key_block * kBlock) * s.step;
  const float* keys = rows + s.key_column(head);
  const float* values = rows + s.value_column(head);
  pack_transposed(keys, s.step, item.keys, s.width, a.scale, m.keys_by_width, kBlock);
  pack_transposed(values, s.step, item.keys, s.width, 1.0f, m.values_by_width, kBlock);
  pack_rows(keys, s.step, item.keys, s.width, a.scale, m.keys, padded, kBlock);
}

void backward_pair(const BackwardCall& a, const BackwardMemory& m, const Item& item, size_t head,
                   size_t block, bool first) {
  const AttentionShape& s = a.shape;
  const size_t padded = round_up(s.width, kLanes);
  Pair pair{std::min(kBlock, s.tokens - block * kBlock), 0, round_up(item.keys, kLanes),
            block == item.key_block};
  pair.query_rows = round_up(pair.queries, kTileRows);
  const size_t row = item.sample * s.tokens + block * kBlock;
  const size_t at = (item.sample * s.heads + head) * s.tokens + block * kBlock;
  size_t query_step = s.step;
  const float* queries = padded_rows(a.qkv + row * s.step + s.query_column(head), query_step,
                                     pair.queries, s.width, m.queries);
  size_t dout_step = s.heads * s.width;
  const float* dout = padded_rows(a.dout + row * dout_step + head * s.width, dout_step,
                                  pair.queries, s.width, m.dout);

  pair_products({queries, query_step, 1}, m.keys_by_width, m.probabilities, pair, s.width);
  pair_products({dout, dout_step, 1}, m.values_by_width, m.dscores, pair, s.width);
  softmax_gradient(m, pair, a.log_sum_exp + at, a.projection + at);
  sum_over_queries({dout, 1, dout_step}, m.probabilities, m.dvalues, pair, s.width, !first);
  sum_over_queries({queries, 1, query_step}, m.dscores, m.dkeys, pair, s.width, !first);
  float* to = a.dqkv + row * s.step + s.query_column(head);
  query_gradient(m, pair, padded, {to, s.step, pair.queries, s.width});
  const auto add = [&](bool begins) {
    add_query_gradient(m, pair, padded, to, s.step, s.width, begins);
  };
  if (a.order == DqOrder::one_thread) return add(item.key_block == 0);
  TileOwner& owner = a.owners[(item.sample * s.heads + head) * s.blocks() + block];
  if (a.order == DqOrder::in_turn) {
    owner.wait_for_turn(item.key_block);
    add(item.key_block == 0);
    owner.turn.store(item.key_block + 1, std::memory_order_release);
    return;
  }
  owner.lock.lock();
  add(!owner.begun);
  owner.begun = true;
  owner.lock.unlock();
}

void attention_backward_item(const BackwardCall& a, size_t sample, size_t key_value_head,
                             size_t key_block, float* memory) {
  const AttentionShape& s = a.shape;
  const size_t padded = round_up(s.width, kLanes);
  const BackwardMemory m = divide(memory, padded);
  const Item item{sample, key_value_head, key_block,
                  std::min(kBlock, s.tokens - key_block * kBlock)};
  pack_keys(a, m, item, padded);
  bool first = true;
  for (size_t g = 0; g < s.group(); ++g) {
    for (size_t block = key_block; block < s.blocks(); ++block) {
      backward_pair(a, m, item, key_value_head * s.group() + g, block, first);
      first = false;
    }
  }
  const size_t head = key_value_head * s.group();
  float* rows = a.dqkv + (sample * s.tokens + key_block * kBlock) * s.step;
  transpose(m.dkeys, kBlock, s.width, item.keys, a.scale, rows + s.key_column(head), s.step);
  transpose(m.dvalues, kBlock, s.width, item.keys, 1.0f, rows + s.value_column(head), s.step);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(row_product);
HWY_EXPORT(attention_backward_item);

void project_rows(Team& team, const AttentionShape& s, const float* dout, const float* out,
                  float* projection) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(row_product);
  team.parallel_for(
      static_cast<int64_t>(s.samples * s.tokens), 1, false, [&](int64_t begin, int64_t end, int) {
        for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
          for (size_t h = 0; h < s.heads; ++h) {
            const size_t at = (row * s.heads + h) * s.width;
            projection[(row / s.tokens * s.heads + h) * s.tokens + row % s.tokens] =
                kernel(dout + at, out + at, s.width);
          }
        }
      });
}

struct Memory {
  float* data;
  size_t each;
  float* of(int thread) const { return data + static_cast<size_t>(thread) * each; }
};

// Calls work(begin, end, thread) with unsigned bounds.
template <class F>
void for_items(Team& team, size_t count, bool dynamic, const F& work) {
  team.parallel_for(static_cast<int64_t>(count), 1, dynamic,
                    [&](int64_t begin, int64_t end, int thread) {
                      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                        work(i, thread);
                      }
                    });
}

void run_item(const BackwardCall& a, const Memory& memory, size_t head, size_t block, int thread) {
  const AttentionShape& s = a.shape;
  HWY_DYNAMIC_DISPATCH(attention_backward_item)
  (a, head / s.key_value_heads, head % s.key_value_heads, block, memory.of(thread));
}

// Items one by one, in order of demand: all key blocks of a head before those of the next.
void by_block(Team& team, const BackwardCall& a, const Memory& memory, size_t heads) {
  const size_t blocks = a.shape.blocks();
  for_items(team, heads * blocks, true,
            [&](size_t i, int thread) { run_item(a, memory, i / blocks, i % blocks, thread); });
}

// Items dealt out like cards, since a contiguous part each would keep threads on different heads; and
// each head from another block on, since the first blocks have the most queries.
void by_block_static(Team& team, const BackwardCall& a, const Memory& memory, size_t heads) {
  const size_t blocks = a.shape.blocks();
  const auto threads = static_cast<size_t>(team.size());
  team.run([&](int thread) {
    for (auto i = static_cast<size_t>(thread); i < heads * blocks; i += threads) {
      run_item(a, memory, i / blocks, (i + i / blocks) % blocks, thread);
    }
  });
}

void by_head(Team& team, const BackwardCall& a, const Memory& memory, size_t heads, bool dynamic) {
  for_items(team, heads, dynamic, [&](size_t head, int thread) {
    for (size_t block = 0; block < a.shape.blocks(); ++block) {
      run_item(a, memory, head, block, thread);
    }
  });
}

void share_out(Team& team, BackwardCall a, const Memory& memory, const SumOrder& sum) {
  const AttentionShape& s = a.shape;
  const size_t heads = s.samples * s.key_value_heads;
  if (sum.order != Order::arrival &&
      fill_threads(static_cast<int64_t>(heads), static_cast<int64_t>(team.size()))) {
    return by_head(team, a, memory, heads, sum.dynamic_schedule);
  }
  std::vector<TileOwner> owners(s.samples * s.heads * s.blocks());
  a.owners = owners.data();
  a.order = sum.order == Order::arrival ? DqOrder::on_arrival : DqOrder::in_turn;
  if (a.order == DqOrder::on_arrival && !sum.dynamic_schedule) {
    return by_block_static(team, a, memory, heads);
  }
  by_block(team, a, memory, heads);
}

}  // namespace

void CpuOps::attention_backward(const AttentionBackward& call) {
  const AttentionShape s = attention_shape(call.qkv, call.samples, call.heads, call.key_value_heads,
                                           "attention_backward");
  const size_t per_head = s.samples * s.heads * s.tokens;
  require(call.dqkv.count() == call.qkv.count() &&
              call.out.count() == static_cast<int64_t>(per_head * s.width) &&
              call.dout.count() == call.out.count() &&
              call.log_sum_exp.count() == static_cast<int64_t>(per_head),
          "attention_backward");
  const size_t padded = (s.width + 15) / 16 * 16;
  const size_t each = 8 * padded * kAttentionBlock + 2 * kAttentionBlock * kAttentionBlock;
  const size_t projections = (per_head + 15) / 16 * 16;
  float* scratch = scratch_.floats(projections + static_cast<size_t>(team_.size()) * each);
  project_rows(team_, s, call.dout.f32(), call.out.f32(), scratch);
  const BackwardCall a{s,
                       call.dqkv.f32(),
                       call.qkv.f32(),
                       call.dout.f32(),
                       call.log_sum_exp.f32(),
                       scratch,
                       static_cast<float>(call.scale),
                       nullptr,
                       DqOrder::one_thread};
  share_out(team_, a, {scratch + projections, each}, call.sum);
}

}  // namespace dettax
#endif
