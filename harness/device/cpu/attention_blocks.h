#pragma once

#include <cstddef>

#include "harness/device/attention_shape.h"

namespace dettax {

inline constexpr size_t kAttentionBlock = 64;  // queries or keys of a block

// A call cut into blocks of queries and of keys.
struct AttentionBlocks : AttentionShape {
  static size_t in_blocks(size_t n) { return (n + kAttentionBlock - 1) / kAttentionBlock; }
  size_t query_blocks() const { return in_blocks(queries); }
  size_t key_blocks() const { return in_blocks(keys); }
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

// The first key head's column of the first row.
inline float* keys_of(const AttentionShape& s, const Tensor& qkv, const Tensor& keys_values) {
  return s.causal ? qkv.f32() + s.heads * s.width : keys_values.f32();
}

}  // namespace dettax
