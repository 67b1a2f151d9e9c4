#pragma once

#include <cstddef>

#include "harness/device/checks.h"
#include "harness/device/ops.h"

namespace dettax {

// What one call works on, on every backend. Query heads lie in qkv[samples * tokens, step], `width` columns each; key and value heads
// in a matrix that begins with the first key head's column: behind the query heads (step is key_step then), or a matrix of another
// rank's.
struct AttentionShape {
  size_t samples, tokens, heads, key_value_heads, width, step;
  size_t key_tokens, key_step;
  size_t first_query, queries, first_key, keys;  // of each sample
  bool causal;  // keys are those of the queries; else all of them stand before all queries

  size_t group() const { return heads / key_value_heads; }
};

// Where the keys are that meet the queries. Call: AttentionForward or AttentionBackward.
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

// The shape of a call whose other tensors fit it too.
inline AttentionShape checked_shape(const AttentionForward& call) {
  const AttentionShape s = attention_shape(call, "attention_forward");
  const auto per_head = static_cast<int64_t>(s.samples * s.heads * s.tokens);
  require(call.out.count() == per_head * static_cast<int64_t>(s.width) &&
              call.log_sum_exp.count() == per_head,
          "attention_forward");
  return s;
}
inline AttentionShape checked_shape(const AttentionBackward& call) {
  const AttentionShape s = attention_shape(call, "attention_backward");
  const auto per_head = static_cast<int64_t>(s.samples * s.heads * s.tokens);
  require(call.dqkv.count() == call.qkv.count() &&
              call.out.count() == per_head * static_cast<int64_t>(s.width) &&
              call.dout.count() == call.out.count() && call.log_sum_exp.count() == per_head &&
              call.dkeys_values.count() == call.block.keys_values.count(),
          "attention_backward");
  return s;
}

}  // namespace dettax
