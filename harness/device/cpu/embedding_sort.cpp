#include "harness/device/cpu/embedding_sort.h"

#include <array>
#include <bit>
#include <numeric>

#include "harness/device/checks.h"

namespace dettax {
namespace {

constexpr int kDigitBits = 10;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// One stable pass by the digit of the id, counted from the first, that begins at bit `shift`.
void sort_by_digit(const int32_t* tokens, int64_t first, const std::vector<int32_t>& from,
                   std::vector<int32_t>& to, int shift) {
  std::array<int32_t, kDigits> next{};
  const auto digit = [&](int32_t position) {
    return (static_cast<uint64_t>(tokens[position] - first) >> shift) & (kDigits - 1);
  };
  for (const int32_t p : from) ++next[digit(p)];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), 0);
  for (const int32_t p : from) to[static_cast<size_t>(next[digit(p)]++)] = p;
}

}  // namespace

bool held(const HeldIds& ids, int32_t token) {
  const bool found = token >= ids.first && token < ids.first + ids.count;
  require(found || ids.partial, "embedding_backward (token)");
  return found;
}

TokenSegments sort_tokens(const int32_t* tokens, int64_t count, const HeldIds& ids) {
  TokenSegments sorted;
  sorted.positions.reserve(static_cast<size_t>(count));
  for (int32_t p = 0; p < count; ++p) {
    if (held(ids, tokens[p])) sorted.positions.push_back(p);
  }
  std::vector<int32_t> other(sorted.positions.size());
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(ids.count - 1)));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    sort_by_digit(tokens, ids.first, sorted.positions, other, shift);
    sorted.positions.swap(other);
  }
  for (size_t i = 0; i < sorted.positions.size(); ++i) {
    if (i == 0 || tokens[sorted.positions[i]] != tokens[sorted.positions[i - 1]]) {
      sorted.segment_begin.push_back(static_cast<int64_t>(i));
    }
  }
  sorted.segment_begin.push_back(static_cast<int64_t>(sorted.positions.size()));
  return sorted;
}

}  // namespace dettax
