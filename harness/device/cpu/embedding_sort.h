#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace dettax {

// Which tokens of a batch have a row in a table: ids [first, first + count). Throws Error{internal}
// for any other token unless the table is partial.
struct HeldIds {
  int64_t first = 0, count = 0;
  bool partial = false;
};
bool held(const HeldIds& ids, int32_t token);

// Positions of a batch that a table holds, ordered by token id, and by position among equal ids.
// positions[segment_begin[i]] .. positions[segment_begin[i + 1] - 1] have one id, a smaller one
// than those of segment i + 1.
struct TokenSegments {
  std::vector<int32_t> positions;
  std::vector<int64_t> segment_begin;  // one more than segments
  int64_t segments() const { return static_cast<int64_t>(segment_begin.size()) - 1; }
};

// Radix sort by id: linear in the number of tokens, whatever the vocabulary.
TokenSegments sort_tokens(const int32_t* tokens, int64_t count, const HeldIds& ids);

}  // namespace dettax
