#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/comm/algorithms.h"

namespace dettax {
namespace {

struct Neighbours {
  explicit Neighbours(const Transport& transport)
      : rank(transport.rank()),
        size(transport.size()),
        next((rank + 1) % size),
        previous((rank + size - 1) % size) {}
  // Part `back` places behind this rank's.
  size_t part(int back) const { return static_cast<size_t>((rank - back + 2 * size) % size); }

  int rank, size, next, previous;
};

}  // namespace

// After n - 1 steps rank r holds the sum of part r, which had begun at rank r + 1; n - 1 more hand
// the parts round.
void ring_all_reduce(Transport& transport, float* data, int64_t count) {
  const Neighbours ring(transport);
  const auto parts = cut(count, ring.size);
  const auto pass = [&](const Range& send, const Range& receive, bool add) {
    float* target = data + receive.begin;
    transport.exchange({data + send.begin, send.size(), ring.next, target, receive.size(),
                        ring.previous, add ? target : nullptr});
  };
  for (int step = 1; step < ring.size; ++step)
    pass(parts[ring.part(step)], parts[ring.part(step + 1)], true);
  for (int step = 0; step + 1 < ring.size; ++step)
    pass(parts[ring.part(step)], parts[ring.part(step + 1)], false);
}

void ring_reduce_scatter(Transport& transport, const float* in, float* out, int64_t count,
                         Scratch& scratch) {
  const Neighbours ring(transport);
  const auto part = [&](int back) { return in + static_cast<int64_t>(ring.part(back)) * count; };
  float* receiving = at_least(scratch, 2 * count);
  float* received = receiving + count;
  const float* sending = part(1);
  for (int step = 1; step < ring.size; ++step) {
    const bool last = step + 1 == ring.size;
    float* target = last ? out : receiving;
    transport.exchange({sending, count, ring.next, target, count, ring.previous, part(step + 1)});
    sending = target;
    std::swap(receiving, received);
  }
}

void ring_all_gather(Transport& transport, const void* in, void* out, int64_t bytes) {
  const Neighbours ring(transport);
  char* to = static_cast<char*>(out);
  const auto part = [&](int back) { return to + static_cast<int64_t>(ring.part(back)) * bytes; };
  if (bytes > 0 && part(0) != in) std::memcpy(part(0), in, static_cast<size_t>(bytes));
  for (int step = 0; step + 1 < ring.size; ++step)
    transport.exchange(
        bytes_exchange(part(step), bytes, ring.next, part(step + 1), bytes, ring.previous));
}

}  // namespace dettax
