// One item of attention backward. It goes through the queries from its diagonal on (all of them if
// keys are another rank's), recomputes the
// probabilities from log_sum_exp, keeps the sums of dK and dV to itself and adds a tile to dQ for each
// block of queries. Keys are the lanes, so keys and values are packed once for an item and queries are
// read where they lie.

#include <algorithm>
#include <mutex>

#include "harness/device/cpu/attention_backward.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/attention_backward_item.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/attention_tile-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

struct ItemMemory {
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
void softmax_gradient(const ItemMemory& m, const Pair& pair, const float* log_sum_exp,
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
void query_gradient(const ItemMemory& m, const Pair& pair, size_t padded, const Rows& target) {
  const LeftOperand left{m.dscores, kBlock, 1};
  for (size_t q = 0; q < pair.query_rows; q += kTileRows) {
    target.prefetch(q);
    tile_row(left.at(q, 0), m.keys, padded, pair.columns_of(q), m.dqueries + q * padded, padded,
             padded, false);
  }
}

void add_query_gradient(const ItemMemory& m, const Pair& pair, size_t padded, float* to,
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

ItemMemory divide(float* memory, size_t padded) {
  const size_t panel = padded * kBlock;
  ItemMemory m{};
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

void pack_keys(const AttentionBackwardWork& a, const ItemMemory& m, const Item& item,
               size_t padded) {
  const AttentionBlocks& s = a.shape;
  const size_t head = item.key_value_head * s.group();
  const float* rows = a.keys + s.key_row(item.sample, item.key_block) * s.key_step;
  const float* keys = rows + s.key_column(head);
  const float* values = rows + s.value_column(head);
  pack_transposed(keys, s.key_step, item.keys, s.width, a.scale, m.keys_by_width, kBlock);
  pack_transposed(values, s.key_step, item.keys, s.width, 1.0f, m.values_by_width, kBlock);
  pack_rows(keys, s.key_step, item.keys, s.width, a.scale, m.keys, padded, kBlock);
}

// Calls add(whether it is the first) when this key block may add to a tile of dQ.
template <class Add>
HWY_INLINE void when_allowed(const AttentionBackwardWork& a, size_t tile, size_t key_block,
                             const Add& add) {
  const bool begins = key_block == 0 && a.shape.causal;
  if (a.order == DqOrder::one_thread) return add(begins);
  DqTile& target = a.tiles[tile];
  if (a.order == DqOrder::in_turn) {
    target.wait_for_turn(key_block);
    add(begins);
    target.turn.store(key_block + 1, std::memory_order_release);
    return;
  }
  const std::lock_guard guard(target.lock);
  add(!target.begun);
  target.begun = true;
}

void backward_pair(const AttentionBackwardWork& a, const ItemMemory& m, const Item& item,
                   size_t head, size_t block, bool first) {
  const AttentionBlocks& s = a.shape;
  const size_t padded = round_up(s.width, kLanes);
  Pair pair{std::min(kBlock, s.queries - block * kBlock), 0, round_up(item.keys, kLanes),
            s.causal && block == item.key_block};
  pair.query_rows = round_up(pair.queries, kTileRows);
  const size_t row = s.query_row(item.sample, block);
  const size_t at = s.statistics_of(item.sample, head, block);
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
  when_allowed(
      a, (item.sample * s.heads + head) * s.query_blocks() + block, item.key_block,
      [&](bool begins) { add_query_gradient(m, pair, padded, to, s.step, s.width, begins); });
}

void attention_backward_item(const AttentionBackwardWork& a, size_t sample, size_t key_value_head,
                             size_t key_block, float* memory) {
  const AttentionBlocks& s = a.shape;
  const size_t padded = round_up(s.width, kLanes);
  const ItemMemory m = divide(memory, padded);
  const Item item{sample, key_value_head, key_block, std::min(kBlock, s.keys - key_block * kBlock)};
  pack_keys(a, m, item, padded);
  bool first = true;
  for (size_t g = 0; g < s.group(); ++g) {
    for (size_t block = s.causal ? key_block : 0; block < s.query_blocks(); ++block) {
      backward_pair(a, m, item, key_value_head * s.group() + g, block, first);
      first = false;
    }
  }
  const size_t head = key_value_head * s.group();
  float* rows = a.dkeys + s.key_row(sample, key_block) * s.key_step;
  transpose(m.dkeys, kBlock, s.width, item.keys, a.scale, rows + s.key_column(head), s.key_step);
  transpose(m.dvalues, kBlock, s.width, item.keys, 1.0f, rows + s.value_column(head), s.key_step);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {

HWY_EXPORT(attention_backward_item);

void AttentionBackwardWork::run_item(size_t head, size_t key_block, int thread) const {
  HWY_DYNAMIC_DISPATCH(attention_backward_item)
  (*this, head / shape.key_value_heads, head % shape.key_value_heads, key_block,
   memory + static_cast<size_t>(thread) * memory_each);
}

}  // namespace dettax
#endif
