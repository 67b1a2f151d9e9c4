// Causal attention, forward, block by block with a running maximum and sum (no T x T matrix). Queries
// are the lanes: scores are kept as [key, query], so that maximum and sum over keys are plain vector
// operations and a chain in key order. An item is a block of 64 queries of one head of one sample;
// nothing is shared between items, so threads and batch do not change bits.

#include <algorithm>
#include <limits>

#include "harness/device/cpu/attention_shape.h"
#include "harness/device/cpu/checks.h"
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
  AttentionShape shape;
  const float* qkv;
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
// was summed before must shrink.
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

void attention_forward_block(const ForwardCall& a, size_t sample, size_t head, size_t block,
                             float* memory) {
  const AttentionShape& s = a.shape;
  const size_t padded = round_up(s.width, kLanes);
  ForwardMemory m;
  m.queries = memory;
  m.scores = m.queries + padded * kBlock;
  m.sums = m.scores + kBlock * kBlock;
  m.keys = m.sums + padded * kBlock;
  m.values = m.keys + padded * kBlock;
  std::fill_n(m.maximum, kBlock, kMasked);
  std::fill_n(m.total, kBlock, 0.0f);
  const size_t first_row = sample * s.tokens;
  const size_t row = first_row + block * kBlock;
  Queries q{std::min(kBlock, s.tokens - block * kBlock), 0};
  q.columns = round_up(q.count, kLanes);
  pack_transposed(a.qkv + row * s.step + s.query_column(head), s.step, q.count, s.width, a.scale,
                  m.queries, kBlock);
  for (size_t kb = 0; kb <= block; ++kb) {
    const bool diagonal = kb == block;
    const size_t rows = diagonal ? q.count : kBlock;
    const size_t key_rows = round_up(rows, kTileRows);
    const float* from = a.qkv + (first_row + kb * kBlock) * s.step;
    size_t key_step = s.step;
    const float* keys = padded_rows(from + s.key_column(head), key_step, rows, s.width, m.keys);
    score_block(m, keys, key_step, key_rows, q, s.width, diagonal);
    softmax_block(m, key_rows, q, diagonal);
    size_t value_step = s.step;
    const float* values =
        padded_rows(from + s.value_column(head), value_step, rows, s.width, m.values);
    value_block(m, values, value_step, key_rows, q, s.width, diagonal, kb == 0);
  }
  finish(a, m, q, row, head, a.log_sum_exp + (sample * s.heads + head) * s.tokens + block * kBlock);
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
  const AttentionShape shape = attention_shape(call.qkv, call.samples, call.heads,
                                               call.key_value_heads, "attention_forward");
  const size_t per_head = shape.samples * shape.heads * shape.tokens;
  require(call.out.count() == static_cast<int64_t>(per_head * shape.width) &&
              call.log_sum_exp.count() == static_cast<int64_t>(per_head),
          "attention_forward");
  const ForwardCall a{shape, call.qkv.f32(), call.out.f32(), call.log_sum_exp.f32(),
                      static_cast<float>(call.scale)};
  const size_t padded = (shape.width + 15) / 16 * 16;
  const size_t memory_each = 4 * padded * kAttentionBlock + kAttentionBlock * kAttentionBlock;
  float* memory = scratch_.floats(static_cast<size_t>(team_.size()) * memory_each);
  const auto kernel = HWY_DYNAMIC_DISPATCH(attention_forward_block);
  // Handed out on demand, the longest of a head first: who takes an item changes nothing in it.
  const size_t heads = shape.samples * shape.heads;
  const size_t blocks = shape.blocks();
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
