#pragma once

#include <cstddef>

#include "harness/device/cpu/checks.h"
#include "harness/device/tensor.h"

namespace dettax {

inline constexpr size_t kAttentionBlock = 64;  // queries or keys of a block

// Where heads lie in qkv[samples * tokens, step]: query heads, key heads, value heads, `width` each.
struct AttentionShape {
  size_t samples, tokens, heads, key_value_heads, width, step;

  size_t blocks() const { return (tokens + kAttentionBlock - 1) / kAttentionBlock; }
  size_t group() const { return heads / key_value_heads; }
  size_t query_column(size_t head) const { return head * width; }
  size_t key_column(size_t head) const { return (heads + head / group()) * width; }
  size_t value_column(size_t head) const { return key_column(head) + key_value_heads * width; }
};

inline AttentionShape attention_shape(const Tensor& qkv, int64_t samples, int64_t heads,
                                      int64_t key_value_heads, const char* operation) {
  require(samples > 0 && key_value_heads > 0 && heads > 0 && heads % key_value_heads == 0 &&
              qkv.rows() % samples == 0 && qkv.columns() % (heads + 2 * key_value_heads) == 0,
          operation);
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  return {size(samples),
          size(qkv.rows() / samples),
          size(heads),
          size(key_value_heads),
          size(qkv.columns() / (heads + 2 * key_value_heads)),
          size(qkv.columns())};
}

}  // namespace dettax
