#include <bit>

#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/sort.cuh"
#include "harness/device/cuda/tile_ranks.cuh"

namespace dettax {
namespace {

constexpr int kDigits = 256;
constexpr int64_t kTile = 2048;
constexpr int kScanThreads = 1024;

struct Digit {
  const int32_t* keys;
  int shift;
  __device__ int operator()(int64_t i) const {
    return static_cast<int>(static_cast<uint32_t>(keys[i]) >> static_cast<uint32_t>(shift) & 255U);
  }
};

__device__ int64_t end_of_tile(int64_t count) {
  const int64_t end = (block_index() + 1) * kTile;
  return end < count ? end : count;
}

// counts[digit, tile]: in this order their running sum says where a tile's keys of a digit begin.
__global__ void count_digits(Digit digit, int64_t count, int32_t* counts) {
  auto* cursors = dynamic_shared<int32_t>();
  count_keys(cursors, kDigits, block_index() * kTile, end_of_tile(count), digit);
  for (int d = thread_index(); d < kDigits; d += block_threads()) {
    counts[d * grid_blocks() + block_index()] = count_of_key(cursors, kDigits, d);
  }
}

struct SortPass {
  const int32_t* positions;  // null: 0, 1, ...
  int32_t* keys_out;
  int32_t* positions_out;
};

__global__ void move_by_digit(Digit digit, SortPass pass, int64_t count, const int32_t* starts) {
  auto* cursors = dynamic_shared<int32_t>();
  const int64_t begin = block_index() * kTile;
  const int64_t end = end_of_tile(count);
  count_keys(cursors, kDigits, begin, end, digit);
  set_cursors(cursors, kDigits, [&](int d) { return starts[d * grid_blocks() + block_index()]; });
  place_by_rank(cursors, kDigits, begin, end, digit, [&](int64_t i, int32_t to) {
    pass.keys_out[to] = digit.keys[i];
    pass.positions_out[to] =
        pass.positions == nullptr ? static_cast<int32_t>(i) : pass.positions[i];
  });
}

// Values 1024 at a time, each warp's sums by shuffles.
__global__ void __launch_bounds__(kScanThreads) scan(int32_t* values, int64_t count) {
  __shared__ int32_t of_warps[32];
  int32_t before = 0;
  for (int64_t begin = 0; begin < count; begin += block_threads()) {
    const int64_t i = begin + thread_index();
    const int32_t own = i < count ? values[i] : 0;
    int32_t sum = own;
    for (int apart = 1; apart < 32; apart *= 2) {
      const int32_t other = __shfl_up_sync(kWholeWarp, sum, apart);
      if (lane_index() >= apart) sum += other;
    }
    if (lane_index() == 31) of_warps[warp_index()] = sum;
    __syncthreads();
    int32_t total = 0;
    int32_t warps_before = 0;
    for (int warp = 0; warp < block_warps(); ++warp) {
      if (warp == warp_index()) warps_before = total;
      total += of_warps[warp];
    }
    if (i < count) values[i] = before + warps_before + sum - own;
    before += total;
    __syncthreads();
  }
}

}  // namespace

SortMemory add_sort(WorkspaceLayout& layout, int64_t count) {
  SortMemory memory{};
  for (int i = 0; i < 2; ++i) {
    memory.keys[i] = layout.add<int32_t>(count);
    memory.positions[i] = layout.add<int32_t>(count);
  }
  memory.counts = layout.add<int32_t>(kDigits * blocks_for(count, kTile));
  return memory;
}

SortedPositions sort_positions(const KernelPlace& place, const WorkspaceLayout& layout,
                               const SortMemory& memory, std::byte* bytes, int64_t count,
                               int64_t below) {
  const auto array = [&](size_t number) { return layout.at<int32_t>(bytes, number); };
  auto* counts = array(memory.counts);
  const int64_t tiles = blocks_for(count, kTile);
  const LaunchShape shape{tiles, kThreads, kThreads / 32 * kDigits * sizeof(int32_t)};
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(below - 1))));
  int from = 0;
  for (int shift = 0; shift < bits; shift += 8, from ^= 1) {
    const Digit digit{array(memory.keys[from]), shift};
    const SortPass pass{shift == 0 ? nullptr : array(memory.positions[from]),
                        array(memory.keys[from ^ 1]), array(memory.positions[from ^ 1])};
    launch(place.stream, shape, count_digits, digit, count, counts);
    exclusive_scan(place, counts, kDigits * tiles);
    launch(place.stream, shape, move_by_digit, digit, pass, count, counts);
  }
  return {array(memory.keys[from]), array(memory.positions[from])};
}

void exclusive_scan(const KernelPlace& place, int32_t* values, int64_t count) {
  launch(place.stream, {1, kScanThreads}, scan, values, count);
}

}  // namespace dettax
