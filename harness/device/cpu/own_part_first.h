#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "harness/device/cpu/team.h"

namespace dettax {

struct Part {
  size_t begin, end;
  size_t size() const { return end - begin; }
};
inline Part part_of(size_t count, size_t thread, size_t threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

// Calls work(item, thread) for `per_group` items of each of `groups` groups, in order of demand: each
// thread takes the items of its contiguous part of the groups one by one, since neighbours share pages
// and what it has touched last is in its cache, and then helps the threads behind it. Items of one
// group begin in ascending order.
template <class F>
void own_part_first(Team& team, size_t groups, size_t per_group, const F& work) {
  struct alignas(64) Queue {
    std::atomic<size_t> next;
    size_t end;
  };
  const auto threads = static_cast<size_t>(team.size());
  std::vector<Queue> queues(threads);
  for (size_t t = 0; t < threads; ++t) {
    const Part part = part_of(groups, t, threads);
    queues[t].next = part.begin * per_group;
    queues[t].end = part.end * per_group;
  }
  team.run([&](int thread) {
    for (size_t t = 0; t < threads; ++t) {
      Queue& queue = queues[(static_cast<size_t>(thread) + t) % threads];
      for (size_t i; (i = queue.next.fetch_add(1, std::memory_order_relaxed)) < queue.end;) {
        work(i, thread);
      }
    }
  });
}

}  // namespace dettax
