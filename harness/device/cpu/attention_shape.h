#pragma once

#include <cstddef>

#include "harness/device/checks.h"
#include "harness/device/ops.h"

namespace dettax {

inline constexpr size_t kAttentionBlock = 64;  // queries or keys of a block

// What one call works on. Query heads lie in qkv[samples * tokens, step], `width` columns each; key and
// value heads in a matrix that begins with the first key head's column: behind the query heads (step is
// key_step then), or a matrix of another rank's.
struct AttentionShape {
  size_t samples, tokens, heads, key_value_heads, width, step;
  size_t key_tokens, key_step;
  size_t first_query, queries, first_key, keys;  // of each sample
  bool causal;  // keys are those of the queries; else all of them stand before all queries

  static size_t in_blocks(size_t n) { return (n + kAttentionBlock - 1) / kAttentionBlock; }
  size_t query_blocks() const { return in_blocks(queries); }
  size_t key_blocks() const { return in_blocks(keys); }
  size_t group() const { return heads / key_value_heads; }
  size_t query_column(size_t head) const { return head * width; }
  size_t key_column(size_t head) const { return head / group() * width; }
  size_t value_column(size_t head) const { return key_column(head) + key_value_heads * width; }
  // The first row of a block, of those of queries and of those of keys.
  size_t query_row(size_t sample, size_t block) const {
    return sample * tokens + first_query + block * kAttentionBlock;
  }
  size_t key_row(size_t sample, size_t block) const {
    return sample * key_tokens + first_key + block * kAttentionBlock;
  }
  // Where a block of queries is among [samples, heads, tokens].
  size_t statistics_of(size_t sample, size_t head, size_t block) const {
    return (sample * heads + head) * tokens + first_query + block * kAttentionBlock;
  }
};

// Call: AttentionForward or AttentionBackward.
template <class Call>
AttentionShape attention_shape(const Call& call, const char* operation) {
  const Tensor& qkv = call.qkv;
  const int64_t all_heads = call.heads + 2 * call.key_value_heads;
  require(call.samples > 0 && call.key_value_heads > 0 && call.heads > 0 &&
              call.heads % call.key_value_heads == 0 && qkv.rows() % call.samples == 0 &&
              qkv.columns() % all_heads == 0,
          operation);
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  AttentionShape s{};
  s.samples = size(call.samples);
  s.tokens = s.key_tokens = s.queries = s.keys = size(qkv.rows() / call.samples);
  s.heads = size(call.heads);
  s.key_value_heads = size(call.key_value_heads);
  s.width = size(qkv.columns() / all_heads);
  s.step = s.key_step = size(qkv.columns());
  const AttentionBlock& block = call.block;
  s.causal = !block.keys_values;
  if (s.causal) return s;
  require(block.keys_values.rows() % call.samples == 0 &&
              size(block.keys_values.columns()) == 2 * s.key_value_heads * s.width &&
              block.first_query >= 0 && block.queries >= 0 && block.first_key >= 0 &&
              block.keys >= 0 && size(block.first_query + block.queries) <= s.tokens &&
              block.first_key + block.keys <= block.keys_values.rows() / call.samples,
          operation);
  s.key_tokens = size(block.keys_values.rows() / call.samples);
  s.key_step = size(block.keys_values.columns());
  s.first_query = size(block.first_query);
  s.queries = size(block.queries);
  s.first_key = size(block.first_key);
  s.keys = size(block.keys);
  return s;
}

// The first key head's column of the first row.
inline float* keys_of(const AttentionShape& s, const Tensor& qkv, const Tensor& keys_values) {
  return s.causal ? qkv.f32() + s.heads * s.width : keys_values.f32();
}

}  // namespace dettax
