#pragma once

#include <cstdint>

#include "harness/device/cuda/device_code.cuh"

namespace dettax {

// Stable ranks among equal keys of a tile. The tile's elements are shared out to the block's warps in runs of neighbours, which a warp
// takes 32 at a time in order; so an element's rank is what its warp counted before plus the lanes before it with the same key.
// `cursors[warp, key]` is shared memory: first the number of each key in the warp's run (count_keys), then where the next one goes.

// f(element, whether it exists): every lane calls it, in order, for its elements of [begin, end).
template <class F>
__device__ void for_each_in_run(int64_t begin, int64_t end, const F& f) {
  const int64_t run = ((end - begin + block_warps() - 1) / block_warps() + 31) / 32 * 32;
  const int64_t first = begin + warp_index() * run;
  for (int64_t step = 0; step < run; step += 32) {
    const int64_t i = first + step + lane_index();
    f(i, i < end);
  }
}

// key(i) is in [0, keys), or negative for what does not count.
template <class Key>
__device__ void count_keys(int32_t* cursors, int keys, int64_t begin, int64_t end, const Key& key) {
  for (int i = thread_index(); i < block_warps() * keys; i += block_threads()) cursors[i] = 0;
  __syncthreads();
  for_each_in_run(begin, end, [&](int64_t i, bool exists) {
    const int own = exists ? key(i) : -1;
    if (own >= 0) atomicAdd(cursors + warp_index() * keys + own, 1);
  });
  __syncthreads();
}

// Of the whole tile, from the counts of its warps.
__device__ inline int32_t count_of_key(const int32_t* cursors, int keys, int key) {
  int32_t total = 0;
  for (int warp = 0; warp < block_warps(); ++warp) total += cursors[warp * keys + key];
  return total;
}

// From counts to where each warp's first of a key goes; start(key) is where the tile's first does.
template <class Start>
__device__ void set_cursors(int32_t* cursors, int keys, const Start& start) {
  for (int key = thread_index(); key < keys; key += block_threads()) {
    int32_t next = start(key);
    for (int warp = 0; warp < block_warps(); ++warp) {
      const int32_t count = cursors[warp * keys + key];
      cursors[warp * keys + key] = next;
      next += count;
    }
  }
  __syncthreads();
}

// place(i, where it goes) for each element that counts.
template <class Key, class Place>
__device__ void place_by_rank(int32_t* cursors, int keys, int64_t begin, int64_t end,
                              const Key& key, const Place& place) {
  int32_t* own_cursors = cursors + warp_index() * keys;
  for_each_in_run(begin, end, [&](int64_t i, bool exists) {
    const int own = exists ? key(i) : -1;
    const uint32_t same = __match_any_sync(kWholeWarp, own);
    const uint32_t before = same & ((1U << static_cast<uint32_t>(lane_index())) - 1);
    const int32_t first = own >= 0 ? own_cursors[own] : 0;
    __syncwarp();
    if (own >= 0) {
      if (before == 0) own_cursors[own] = first + __popc(same);
      place(i, first + __popc(before));
    }
    __syncwarp();
  });
}

}  // namespace dettax
