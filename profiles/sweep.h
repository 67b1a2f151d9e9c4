#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "profiles/trace.h"

namespace dettax {

// 0 is the highest claim on a moment. A fill by a kernel or a loop takes the place of compute on its stream, a memset need not.
constexpr int claim_of(Category category) {
  constexpr std::array<int, 5> kClaims{0, 1, 2, 3,
                                       3};  // compute, fill, communication, copy, memset
  return kClaims[static_cast<size_t>(category)];
}

// Tiles the time from the first work's start to the last work's end: `emit(start_ns, end_ns, owner)` in order of time, where `owner` is
// the index of the span that owns the stretch, and `idle(start_ns, end_ns, next)` where nothing ran before the work of index `next`.
// `work`: indices of the trace's work, in the trace's order.
template <typename Emit, typename Idle>
void sweep(const Trace& trace, const std::vector<uint32_t>& work, const Emit& emit,
           const Idle& idle) {
  struct Claim {
    int claim;
    int64_t start_ns;
    uint32_t stream, index;
    bool operator>(const Claim& other) const {
      return std::tie(claim, start_ns, stream, index) >
             std::tie(other.claim, other.start_ns, other.stream, other.index);
    }
  };
  std::vector<Claim>
      active;  // a heap, the best claim on top; claims that have ended leave it when they come up
  if (work.empty()) return;
  int64_t now = trace.spans[work.front()].start_ns;

  const auto run_until = [&](int64_t until) {
    while (now < until && !active.empty()) {
      const uint32_t owner = active.front().index;
      const int64_t end = trace.spans[owner].end_ns;
      if (end > now) {
        const int64_t stop = std::min(end, until);
        emit(now, stop, owner);
        now = stop;
      }
      if (end <= now) {
        std::pop_heap(active.begin(), active.end(), std::greater<>());
        active.pop_back();
      }
    }
  };
  for (const uint32_t index : work) {
    const Span& span = trace.spans[index];
    run_until(span.start_ns);
    if (now < span.start_ns) {
      idle(now, span.start_ns, index);
      now = span.start_ns;
    }
    active.push_back({claim_of(span.category), span.start_ns, span.stream, index});
    std::push_heap(active.begin(), active.end(), std::greater<>());
  }
  run_until(INT64_MAX);
}

}  // namespace dettax
