#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "harness/comm/algorithms.h"

namespace dettax {
namespace {

struct Halves {
  Range kept, sent;
};

// Cut at a cache line, as cut() does.
Halves halve(const Range& range, bool keep_lower) {
  constexpr int64_t kLine = 16;
  const int64_t middle =
      std::min(range.end, range.begin + (range.size() / 2 + kLine - 1) / kLine * kLine);
  const Range lower{range.begin, middle};
  const Range upper{middle, range.end};
  return keep_lower ? Halves{lower, upper} : Halves{upper, lower};
}

// Neighbours first, so that the order is that of the aligned binary tree.
void halving_all_reduce_of_power(Transport& transport, int ranks, float* data, int64_t count) {
  std::vector<Halves> steps;
  Range mine{0, count};
  for (int mask = 1; mask < ranks; mask *= 2) {
    const int partner = transport.rank() ^ mask;
    const Halves halves = halve(mine, (transport.rank() & mask) == 0);
    float* target = data + halves.kept.begin;
    transport.exchange({data + halves.sent.begin, halves.sent.size(), partner, target,
                        halves.kept.size(), partner, target});
    steps.push_back(halves);
    mine = halves.kept;
  }
  for (int mask = ranks / 2; mask >= 1; mask /= 2) {
    const int partner = transport.rank() ^ mask;
    const Halves halves = steps.back();
    steps.pop_back();
    transport.exchange({data + halves.kept.begin, halves.kept.size(), partner,
                        data + halves.sent.begin, halves.sent.size(), partner, nullptr});
  }
}

}  // namespace

bool power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

void halving_all_reduce(Transport& transport, float* data, int64_t count) {
  const int rank = transport.rank();
  const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(transport.size())));
  if (rank >= power) {  // handed to a rank below, and taken back as the sum
    transport.exchange({data, count, rank - power});
    transport.exchange({nullptr, 0, -1, data, count, rank - power, nullptr});
    return;
  }
  const int above = rank + power < transport.size() ? rank + power : -1;
  if (above >= 0) transport.exchange({nullptr, 0, -1, data, count, above, data});
  halving_all_reduce_of_power(transport, power, data, count);
  if (above >= 0) transport.exchange({data, count, above});
}

// The far half first, so that what is kept stays in one piece.
void halving_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                            Scratch& scratch) {
  const int rank = transport.rank();
  const int ranks = transport.size();
  float* sum = at_least(scratch, count * ranks);
  const float* current = in;
  for (int half = ranks / 2; half >= 1; half /= 2) {
    const bool keep_lower = (rank & half) == 0;
    const int64_t kept = keep_lower ? 0 : half * count;
    const int64_t sent = keep_lower ? half * count : 0;
    float* target = half == 1 ? out : sum;
    transport.exchange({current + sent, half * count, rank ^ half, target, half * count,
                        rank ^ half, current + kept});
    current = target;
    sum += half * count;  // room for the next half: what is being sent must not change
  }
}

void doubling_all_gather(Transport& transport, const void* in, void* out, int64_t bytes) {
  const int rank = transport.rank();
  char* to = static_cast<char*>(out);
  if (bytes > 0 && to + rank * bytes != in)
    std::memcpy(to + rank * bytes, in, static_cast<size_t>(bytes));
  for (int have = 1; have < transport.size(); have *= 2) {
    const int mine = rank / have * have;
    const int theirs = mine ^ have;
    transport.exchange(bytes_exchange(to + mine * bytes, have * bytes, rank ^ have,
                                      to + theirs * bytes, have * bytes, rank ^ have));
  }
}

}  // namespace dettax
