// Where each choice of a token goes: a counting sort by expert. Choices are cut into tiles that end where a half of a sample does.
//   deterministic  a choice's row is its expert's segment plus its stable rank in the sample: tile_ranks.cuh
//   fast           choices claim rows of their expert from a counter, a warp's equal ones at once, as they come. Ranks are needed only
//                  where a capacity drops choices, which goes by position in every mode.

#include <climits>

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/sort.cuh"
#include "harness/device/cuda/tile_ranks.cuh"
#include "harness/device/cuda/workspace.h"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int64_t kTile = 1024;  // choices
constexpr int64_t kMostExperts = 1024;

struct Choices {
  const int32_t* experts;
  int64_t samples, tokens, choices;  // tokens of a sample, choices of a token
  int expert_count;
  int64_t tiles_of_half;

  __device__ int64_t tile() const { return block_index(); }
  __device__ int64_t sample() const { return tile() / (2 * tiles_of_half); }
  __device__ int64_t half() const { return tile() / tiles_of_half % 2; }
  // Of this block's tile; may be empty.
  __device__ int64_t begin() const {
    const int64_t skipped = half() == 0 ? 0 : tokens / 2;
    const int64_t first = (sample() * tokens + skipped) * choices + tile() % tiles_of_half * kTile;
    return first < half_end() ? first : half_end();
  }
  __device__ int64_t end() const {
    return begin() + kTile < half_end() ? begin() + kTile : half_end();
  }
  __device__ int64_t half_end() const {
    return (sample() * tokens + (half() == 0 ? tokens / 2 : tokens)) * choices;
  }
  int64_t tiles() const { return samples * 2 * tiles_of_half; }
};

struct ExpertOf {
  const int32_t* experts;
  int expert_count;
  uint32_t* faults;
  __device__ int operator()(int64_t i) const {
    const int expert = experts[i];
    if (expert >= 0 && expert < expert_count) return expert;
    report(faults, KernelFault::expert);
    return -1;
  }
};

// counts[tile, expert]
__global__ void count_experts(Choices a, ExpertOf expert, int32_t* counts) {
  auto* cursors = dynamic_shared<int32_t>();
  count_keys(cursors, a.expert_count, a.begin(), a.end(), expert);
  for (int e = thread_index(); e < a.expert_count; e += block_threads()) {
    counts[a.tile() * a.expert_count + e] = count_of_key(cursors, a.expert_count, e);
  }
}

struct SampleCounts {
  int32_t* counts;  // [samples, experts], the plan's
  int32_t* kept;    // [experts * samples + 1], the last 0
  int32_t*
      halves;  // [samples, 2, experts]: first rank of a half and how many of it are kept, for the kernel below
  int32_t* kept_halves;
  const int32_t* before;  // [2 samples, experts] or null
  int32_t capacity;
};

__device__ int32_t within(int32_t value, int32_t most) {
  return value < 0 ? 0 : value < most ? value : most;
}

// From the counts of tiles to what comes before each in its half, and to how many choices a sample keeps.
__global__ void sum_samples(Choices a, int32_t* tiles, SampleCounts to) {
  const int64_t pairs = a.samples * a.expert_count;
  for (int64_t i = grid_thread(); i < pairs; i += grid_threads()) {
    const int64_t sample = i / a.expert_count;
    const int64_t expert = i % a.expert_count;
    int32_t all = 0;
    int32_t kept = 0;
    for (int64_t half = 0; half < 2; ++half) {
      int32_t count = 0;
      for (int64_t t = 0; t < a.tiles_of_half; ++t) {
        const int64_t tile = (sample * 2 + half) * a.tiles_of_half + t;
        int32_t& at = tiles[tile * a.expert_count + expert];
        const int32_t own = at;
        at = count;
        count += own;
      }
      const int64_t place = (sample * 2 + half) * a.expert_count + expert;
      const int32_t ahead = to.before == nullptr ? kept : to.before[place];
      to.halves[place] = kept;
      to.kept_halves[place] = within(to.capacity - ahead, count);
      kept += to.kept_halves[place];
      all += count;
    }
    to.counts[i] = all;
    to.kept[expert * a.samples + sample] = kept;
  }
  if (grid_thread() == 0) to.kept[pairs] = 0;
}

// starts: the running sum of kept.
__global__ void write_segments(const int32_t* starts, int64_t experts, int64_t samples,
                               int32_t* segments) {
  for (int64_t i = grid_thread(); i < experts * (samples + 1); i += grid_threads()) {
    segments[i] = starts[i / (samples + 1) * samples + i % (samples + 1)];
  }
}

struct PlacedRows {
  int32_t* slots;
  int32_t* sources;
  const int32_t* segments;
};

}  // namespace

namespace deterministic {
namespace {

// slots become rows; with `only_numbers` they only say whether a choice was kept.
__global__ void place_choices(Choices a, ExpertOf expert, const int32_t* tiles, SampleCounts counts,
                              PlacedRows to, bool only_numbers) {
  auto* cursors = dynamic_shared<int32_t>();
  count_keys(cursors, a.expert_count, a.begin(), a.end(), expert);
  set_cursors(cursors, a.expert_count, [&](int e) { return tiles[a.tile() * a.expert_count + e]; });
  const int64_t half = (a.sample() * 2 + a.half()) * a.expert_count;
  place_by_rank(cursors, a.expert_count, a.begin(), a.end(), expert, [&](int64_t i, int32_t rank) {
    const int e = a.experts[i];
    if (rank >= counts.kept_halves[half + e]) {
      to.slots[i] = -1;
      return;
    }
    const int32_t row =
        to.segments[e * (a.samples + 1) + a.sample()] + counts.halves[half + e] + rank;
    to.slots[i] = row;
    if (!only_numbers) to.sources[row] = static_cast<int32_t>(i);
  });
}

}  // namespace
}  // namespace deterministic

namespace fast {
namespace {

// cursors[expert]: the next free row. `all_kept`: no choice was dropped and slots say nothing yet.
__global__ void claim_rows(int64_t count, PlacedRows to, int32_t* cursors, bool all_kept,
                           ExpertOf expert) {
  const int64_t rounded = (count + 31) / 32 * 32;
  for (int64_t i = grid_thread(); i < rounded; i += grid_threads()) {
    int own = i < count ? expert(i) : -1;
    if (own >= 0 && !all_kept && to.slots[i] < 0) own = -1;
    const uint32_t same = __match_any_sync(kWholeWarp, own);
    const int leader = __ffs(static_cast<int>(same)) - 1;
    int32_t first = 0;
    if (own >= 0 && lane_index() == leader) first = atomicAdd(cursors + own, __popc(same));
    first = __shfl_sync(kWholeWarp, first, leader);
    if (own < 0) continue;
    const uint32_t before = same & ((1U << static_cast<uint32_t>(lane_index())) - 1);
    const int32_t row = first + __popc(before);
    to.slots[i] = row;
    to.sources[row] = static_cast<int32_t>(i);
  }
}

__global__ void first_rows(const int32_t* segments, int64_t samples, int experts,
                           int32_t* cursors) {
  for (int e = thread_index(); e < experts; e += block_threads()) {
    cursors[e] = segments[e * (samples + 1)];
  }
}

}  // namespace
}  // namespace fast

void CudaKernels::plan_experts(const PlanExperts& call) {
  const ExpertPlan& plan = call.plan;
  const int64_t samples = plan.counts.rows();
  const int64_t expert_count = plan.counts.columns();
  const int64_t count = call.experts.count();
  require_shapes(call);
  require(expert_count <= kMostExperts, "plan_experts");
  const int64_t tokens = call.experts.rows() / samples;
  Choices a{call.experts.i32(),
            samples,
            tokens,
            call.experts.columns(),
            static_cast<int>(expert_count),
            1};
  a.tiles_of_half = std::max<int64_t>(1, blocks_for((tokens - tokens / 2) * a.choices, kTile));
  WorkspaceLayout layout;
  const size_t tile_counts = layout.add<int32_t>(a.tiles() * expert_count);
  const size_t kept = layout.add<int32_t>(expert_count * samples + 1);
  const size_t halves = layout.add<int32_t>(2 * samples * expert_count);
  const size_t kept_halves = layout.add<int32_t>(2 * samples * expert_count);
  const size_t next_rows = layout.add<int32_t>(expert_count);
  std::byte* memory = workspace(layout.bytes());
  auto* tiles = layout.at<int32_t>(memory, tile_counts);
  const SampleCounts sums{plan.counts.i32(),
                          layout.at<int32_t>(memory, kept),
                          layout.at<int32_t>(memory, halves),
                          layout.at<int32_t>(memory, kept_halves),
                          call.before ? call.before.i32() : nullptr,
                          call.capacity > 0 ? static_cast<int32_t>(call.capacity) : INT_MAX};
  const ExpertOf expert{a.experts, a.expert_count, fault_word()};
  const PlacedRows rows{plan.slots.i32(), plan.sources.i32(), plan.segments.i32()};
  const LaunchShape tile_shape{a.tiles(), kThreads,
                               static_cast<size_t>(kThreads / 32 * expert_count) * sizeof(int32_t)};
  const LaunchShape pair_shape{
      grid_for(expert_count * (samples + 1), kThreads, place_.multiprocessors)};
  launch(place_.stream, tile_shape, count_experts, a, expert, tiles);
  launch(place_.stream, pair_shape, sum_samples, a, tiles, sums);
  exclusive_scan(place_, sums.kept, expert_count * samples + 1);
  launch(place_.stream, pair_shape, write_segments, sums.kept, expert_count, samples,
         plan.segments.i32());
  fill_bytes(plan.sources, 0xFF);
  const bool arrival = call.sum.order == Order::arrival;
  if (!arrival || call.capacity > 0) {
    launch(place_.stream, tile_shape, deterministic::place_choices, a, expert, tiles, sums, rows,
           arrival);
  }
  if (!arrival) return;
  auto* cursors = layout.at<int32_t>(memory, next_rows);
  launch(place_.stream, {1}, fast::first_rows, plan.segments.i32(), samples, a.expert_count,
         cursors);
  launch(place_.stream, {grid_for(count, kThreads, place_.multiprocessors)}, fast::claim_rows,
         count, rows, cursors, call.capacity == 0, expert);
}

}  // namespace dettax
