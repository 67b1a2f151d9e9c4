// Causal attention, forward, block by block with a running maximum and sum (no T x T matrix). Queries
// are the lanes: scores are kept as [key, query], so that maximum and sum over keys are plain vector
// operations and a chain in key order. An item is a block of 64 queries of one head of one sample;
// nothing is shared between items, so threads and batch do not change bits.
// What earlier calls gave for a query counts as one more key, with their log-sum-exp as its score and
// their output as its value.

#include <algorithm>
#include <limits>

#include "harness/device/cpu/attention_blocks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/attention_tile-inl.h"
#include "hwy/contrib/math/math-inl.h"

#ifndef DETTAX_CPU_ATTENTION_FORWARD_TYPES
#define DETTAX_CPU_ATTENTION_FORWARD_TYPES
namespace dettax {
namespace {

struct ForwardCall {
  AttentionBlocks shape;
  const float* qkv;
  const float* keys;  // of the first row
  float* out;
  float* log_sum_exp;
  float scale;
};

}  // namespace
}  // namespace dettax
#endif

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

constexpr float kMasked = std::numeric_limits<float>::lowest();

struct ForwardMemory {
  float* queries;  // [width, 64], scaled
  float* scores;   // [64 keys, 64 queries]
  float* sums;     // [width, 64]: the output before it is divided and transposed
  float* keys;     // padded copies of a last block
  float* values;
  float maximum[kBlock], total[kBlock], factor[kBlock];
};

// One item: its block of queries and what it has seen of the keys so far.
struct Queries {
  size_t count;    // valid ones
  size_t columns;  // the same rounded up to 16
};

// scores[key, query] = key . query, of the columns that causality leaves.
void score_block(const ForwardMemory& m, const float* keys, size_t step, size_t key_rows,
                 const Queries& q, size_t width, bool diagonal) {
  const LeftOperand left{keys, step, 1};
  for (size_t k = 0; k < key_rows; k += kTileRows) {
    const size_t first = diagonal ? k / kLanes * kLanes : 0;
    tile_row(left.at(k, 0), m.queries + first, kBlock, width, m.scores + k * kBlock + first, kBlock,
             q.columns - first, false);
  }
}

// Scores become probabilities relative to the new running maximum; sets the factor by which all that
// was summed before must shrink. On the diagonal key_rows may count padding: it is masked.
void softmax_block(ForwardMemory& m, size_t key_rows, const Queries& q, bool diagonal) {
  for (size_t c = 0; c < q.columns; c += kLanes) {
    const size_t end = diagonal ? std::min(key_rows, c + kLanes) : key_rows;
    float* at = m.scores + c;
    if (diagonal) {
      // Inside the 16 x 16 squares on the diagonal: key c + i is hidden from queries c .. c + i - 1.
      for (size_t k = c + 1; k < end; ++k) std::fill_n(at + k * kBlock, k - c, kMasked);
    }
    const Lanes old_maximum = load(m.maximum + c);
    Lanes maximum = old_maximum;
    for (size_t k = 0; k < end; ++k) maximum = max(maximum, load(at + k * kBlock));
    const Lanes factor = exp_nonpositive(sub(old_maximum, maximum));
    Lanes total = mul(load(m.total + c), factor);
    for (size_t k = 0; k < end; ++k) {
      const Lanes p = exp_nonpositive(sub(load(at + k * kBlock), maximum));
      store(p, at + k * kBlock);
      total = add(total, p);
    }
    store(maximum, m.maximum + c);
    store(factor, m.factor + c);
    store(total, m.total + c);
  }
}

// sums[i, query] = sums * factor + sum over keys of value[key, i] * probability[key, query].
void value_block(const ForwardMemory& m, const float* values, size_t step, size_t key_rows,
                 const Queries& q, size_t width, bool diagonal, bool first) {
  const LeftOperand left{values, 1, step};
  for (size_t i = 0; i < width; i += kTileRows) {
    float* to = m.sums + i * kBlock;
    if (!diagonal) {
      tile_row(left.at(i, 0), m.scores, kBlock, key_rows, to, kBlock, q.columns, !first,
               first ? nullptr : m.factor);
      continue;
    }
    for (size_t k = 0; k < key_rows; k += kLanes) {
      tile_row(left.at(i, k), m.scores + k * kBlock + k, kBlock, std::min(kLanes, key_rows - k),
               to + k, kBlock, q.columns - k, !first || k > 0,
               first || k > 0 ? nullptr : m.factor + k);
    }
  }
}

void finish(const ForwardCall& a, ForwardMemory& m, const Queries& q, size_t row, size_t head,
            float* log_sum_exp) {
  const FloatTag d;
  const size_t width = a.shape.width;
  float log_sums[kBlock];
  for (size_t c = 0; c < q.columns; c += kLanes) {
    const Lanes total = load(m.total + c);
    const Lanes inverse =
        each_part([&](size_t p) { return hn::Div(hn::Set(d, 1.0f), total.part[p]); });
    for (size_t i = 0; i < width; ++i) {
      float* at = m.sums + i * kBlock + c;
      store(mul(load(at), inverse), at);
    }
    const Lanes logs = each_part([&](size_t p) { return hn::Log(d, total.part[p]); });
    store(add(load(m.maximum + c), logs), log_sums + c);
  }
  std::copy_n(log_sums, q.count, log_sum_exp);
  const size_t out_step = a.shape.heads * width;
  transpose(m.sums, kBlock, width, q.count, 1.0f, a.out + row * out_step + head * width, out_step);
}

ForwardMemory divide(float* memory, size_t width) {
  const size_t padded = round_up(width, kLanes);
  ForwardMemory m;
  m.queries = memory;
  m.scores = m.queries + padded * kBlock;
  m.sums = m.scores + kBlock * kBlock;
  m.keys = m.sums + padded * kBlock;
  m.values = m.keys + padded * kBlock;
  std::fill_n(m.maximum, kBlock, kMasked);
  std::fill_n(m.total, kBlock, 0.0f);
  return m;
}

// Takes up what earlier calls gave.
void resume(const ForwardCall& a, ForwardMemory& m, const Queries& q, size_t row, size_t head,
            const float* log_sum_exp) {
  const size_t width = a.shape.width;
  const size_t out_step = a.shape.heads * width;
  std::copy_n(log_sum_exp, q.count, m.maximum);
  std::fill_n(m.total, q.count, 1.0f);
  pack_transposed(a.out + row * out_step + head * width, out_step, q.count, width, 1.0f, m.sums,
                  kBlock);
}

// One block of queries against one of keys, `rows` of them; `first`: nothing has been summed yet.
struct Keys {
  const float* data;  // the first of the head
  size_t rows;
  bool diagonal, first;
};

void forward_pair(const ForwardCall& a, ForwardMemory& m, const Queries& q, const Keys& k) {
  const AttentionBlocks& s = a.shape;
  const size_t key_rows = round_up(k.rows, kTileRows);
  const size_t summed_rows = k.diagonal ? key_rows : k.rows;
  size_t key_step = s.key_step;
  const float* keys = padded_rows(k.data, key_step, k.rows, s.width, m.keys);
  score_block(m, keys, key_step, key_rows, q, s.width, k.diagonal);
  softmax_block(m, summed_rows, q, k.diagonal);
  size_t value_step = s.key_step;
  const float* values =
      padded_rows(k.data + s.value_column(0), value_step, k.rows, s.width, m.values);
  value_block(m, values, value_step, summed_rows, q, s.width, k.diagonal, k.first);
}

void attention_forward_block(const ForwardCall& a, size_t sample, size_t head, size_t block,
                             float* memory) {
  const AttentionBlocks& s = a.shape;
  ForwardMemory m = divide(memory, s.width);
  const size_t row = s.query_row(sample, block);
  float* log_sum_exp = a.log_sum_exp + s.statistics_of(sample, head, block);
  Queries q{std::min(kBlock, s.queries - block * kBlock), 0};
  q.columns = round_up(q.count, kLanes);
  pack_transposed(a.qkv + row * s.step + s.query_column(head), s.step, q.count, s.width, a.scale,
                  m.queries, kBlock);
  if (!s.causal) resume(a, m, q, row, head, log_sum_exp);
  const size_t key_blocks = s.causal ? block + 1 : s.key_blocks();
  for (size_t kb = 0; kb < key_blocks; ++kb) {
    const float* keys = a.keys + s.key_row(sample, kb) * s.key_step + s.key_column(head);
    forward_pair(a, m, q,
                 {keys, std::min(kBlock, s.keys - kb * kBlock), s.causal && kb == block,
                  s.causal && kb == 0});
  }
  finish(a, m, q, row, head, log_sum_exp);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(attention_forward_block);
}

void CpuOps::attention_forward(const AttentionForward& call) {
  const AttentionBlocks shape{checked_shape(call)};
  const ForwardCall a{
      shape,          call.qkv.f32(),         keys_of(shape, call.qkv, call.block.keys_values),
      call.out.f32(), call.log_sum_exp.f32(), static_cast<float>(call.scale)};
  const size_t padded = (shape.width + 15) / 16 * 16;
  const size_t memory_each = 4 * padded * kAttentionBlock + kAttentionBlock * kAttentionBlock;
  float* memory = scratch_.floats(static_cast<size_t>(team_.size()) * memory_each);
  const auto kernel = HWY_DYNAMIC_DISPATCH(attention_forward_block);
  // Handed out on demand, the longest of a head first: who takes an item changes nothing in it.
  const size_t heads = shape.samples * shape.heads;
  const size_t blocks = shape.query_blocks();
  team_.parallel_for(
      static_cast<int64_t>(heads * blocks), 1, true, [&](int64_t begin, int64_t end, int thread) {
        for (auto item = static_cast<size_t>(begin); item < static_cast<size_t>(end); ++item) {
          const size_t head = item / blocks;
          kernel(a, head / shape.heads, head % shape.heads, blocks - 1 - item % blocks,
                 memory + static_cast<size_t>(thread) * memory_each);
        }
      });
}

}  // namespace dettax
#endif
