#include "harness/device/cpu/embedding_sort.h"

#include <array>
#include <bit>
#include <numeric>

#include "harness/device/cpu/checks.h"

namespace dettax {
namespace {

constexpr int kDigitBits = 10;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// One stable pass by the digit of the id that begins at bit `shift`.
void sort_by_digit(const int32_t* tokens, const std::vector<int32_t>& from,
                   std::vector<int32_t>& to, int shift) {
  std::array<int32_t, kDigits> next{};
  const auto digit = [&](int32_t position) {
    return (static_cast<uint32_t>(tokens[position]) >> shift) & (kDigits - 1);
  };
  for (const int32_t p : from) ++next[digit(p)];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), 0);
  for (const int32_t p : from) to[static_cast<size_t>(next[digit(p)]++)] = p;
}

}  // namespace

TokenSegments sort_tokens(const int32_t* tokens, int64_t count, int64_t vocabulary) {
  TokenSegments sorted;
  sorted.positions.resize(static_cast<size_t>(count));
  std::iota(sorted.positions.begin(), sorted.positions.end(), 0);
  for (const int32_t p : sorted.positions) {
    require(tokens[p] >= 0 && tokens[p] < vocabulary, "embedding_backward (token)");
  }
  std::vector<int32_t> other(sorted.positions.size());
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(vocabulary - 1)));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    sort_by_digit(tokens, sorted.positions, other, shift);
    sorted.positions.swap(other);
  }
  for (size_t i = 0; i < sorted.positions.size(); ++i) {
    if (i == 0 || tokens[sorted.positions[i]] != tokens[sorted.positions[i - 1]]) {
      sorted.segment_begin.push_back(static_cast<int64_t>(i));
    }
  }
  sorted.segment_begin.push_back(count);
  return sorted;
}

}  // namespace dettax
