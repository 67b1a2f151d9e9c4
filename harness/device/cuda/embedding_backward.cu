// Gradient of the token and position tables. Real text repeats few ids very often, so the rows of those are where the variants differ:
//   fast           every row of dy is added to its row of the table by atomics, as wide as the device has them
//   deterministic  positions are sorted by token. ordered: tiles of kTile sorted positions are added up on their own; a sum that
//                  crosses the border of a tile goes to memory, and one owner adds such parts in order of tile. So an id that is
//                  everywhere keeps the whole device busy. invariant: one owner an id, a chain in each sample and a tree over samples
//   generic        as index_put does it: the same sort, one owner an id, one chain
// A row of the position table has one row of each sample: one owner adds them in all variants.

#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/row_sums.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

template <class T>
struct TokenRows {
  float* table;
  const T* dy;
  const int32_t* tokens;
  int64_t rows, width, per_sample, vocabulary;
  TablePart part;

  // -1: not in this table.
  __device__ int64_t id(int64_t row, uint32_t* faults) const {
    const int64_t id = tokens[row] - part.first_id;
    if (id >= 0 && id < vocabulary) return id;
    if (!part.partial) report(faults, KernelFault::token);
    return -1;
  }
};

// A thread a pack of one row of the position table: a chain over samples, or the tree.
template <class T, int kCount, bool kTree>
__global__ void add_position_rows(TokenRows<T> a, float* table, TokenPlaces places,
                                  PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [token, column] = packs.place(i);
    TreeSum trees[static_cast<size_t>(kTree ? kCount : 1)];
    auto sum = zeros<kCount>();
    for (int64_t row = token; row < a.rows; row += a.per_sample) {
      const auto values = load<kCount>(a.dy + row * a.width + column);
      for (int k = 0; k < kCount; ++k) {
        if constexpr (kTree) {
          trees[k].add(values.at[k]);
        } else {
          sum.at[k] += values.at[k];
        }
      }
    }
    float* to = table + places.position(token, a.per_sample) * a.width + column;
    const auto old = load<kCount>(to);
    for (int k = 0; k < kCount; ++k) {
      if constexpr (kTree) sum.at[k] = trees[k].sum();
      sum.at[k] += old.at[k];
    }
    store(to, sum);
  }
}

}  // namespace

namespace fast {
namespace {

template <class T, int kCount>
__global__ void add_token_rows(TokenRows<T> a, PackedRows<kCount> packs, uint32_t* faults) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [row, column] = packs.place(i);
    const int64_t id = a.id(row, faults);
    if (id < 0) continue;
    atomic_add<kCount>(a.table + id * a.width + column,
                       load<kCount>(a.dy + row * a.width + column));
  }
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

constexpr int64_t kTile = 32;  // sorted positions

// Ids that are not in this table are sorted behind all others.
template <class T>
__global__ void write_keys(TokenRows<T> a, int32_t* keys, uint32_t* faults) {
  for (int64_t row = grid_thread(); row < a.rows; row += grid_threads()) {
    const int64_t id = a.id(row, faults);
    keys[row] = static_cast<int32_t>(id < 0 ? a.vocabulary : id);
  }
}

// parts[tile, 2, width]: the sum of the rows at the tile's begin whose index has rows before it, and of those at its end whose index
// begins in this tile and has rows behind it.
template <class T, int kCount>
__global__ void add_tile(RowsByKey<float, T> a, float* parts) {
  const int32_t* keys = a.sorted.keys;
  const int64_t begin = block_index() * kTile;
  const int64_t end = begin + kTile < a.count ? begin + kTile : a.count;
  for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
       c += int64_t{block_threads()} * kCount) {
    auto sum = zeros<kCount>();
    bool from_before = begin > 0 && keys[begin - 1] == keys[begin];
    for (int64_t i = begin; i < end && keys[i] < a.keys_end; ++i) {
      const auto row = load<kCount>(a.rows + a.sorted.positions[i] * a.width + c);
      for (int k = 0; k < kCount; ++k) sum.at[k] += row.at[k];
      const bool goes_on = i + 1 < a.count && keys[i + 1] == keys[i];
      if (goes_on && i + 1 < end) continue;
      float* part = parts + block_index() * 2 * a.width + c;
      if (from_before) {
        store(part, sum);
      } else if (goes_on) {
        store(part + a.width, sum);
      } else {
        float* to = a.table + keys[i] * a.width + c;
        const auto old = load<kCount>(to);
        for (int k = 0; k < kCount; ++k) sum.at[k] += old.at[k];
        store(to, sum);
      }
      sum = zeros<kCount>();
      from_before = false;
    }
  }
}

// The owner of an index whose rows cross tiles is the tile in which they begin.
template <class T, int kCount>
__global__ void join_tiles(RowsByKey<float, T> a, const float* parts) {
  const int32_t* keys = a.sorted.keys;
  const int64_t last = (block_index() + 1) * kTile - 1;
  if (last + 1 >= a.count || keys[last] >= a.keys_end || keys[last] != keys[last + 1]) return;
  const int64_t begin = block_index() * kTile;
  if (begin > 0 && keys[begin - 1] == keys[last]) return;
  const int32_t key = keys[last];
  for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
       c += int64_t{block_threads()} * kCount) {
    auto sum = load<kCount>(parts + (block_index() * 2 + 1) * a.width + c);
    for (int64_t tile = block_index() + 1; tile * kTile < a.count && keys[tile * kTile] == key;
         ++tile) {
      const auto part = load<kCount>(parts + tile * 2 * a.width + c);
      for (int k = 0; k < kCount; ++k) sum.at[k] += part.at[k];
    }
    float* to = a.table + key * a.width + c;
    const auto old = load<kCount>(to);
    for (int k = 0; k < kCount; ++k) sum.at[k] += old.at[k];
    store(to, sum);
  }
}

// What of it the variants share: keys sorted, in working memory with room for parts behind.
struct SortedTokens {
  SortedPositions sorted;
  float* parts;
};
template <class T, class Workspace>
SortedTokens sort_tokens(const KernelPlace& place, const TokenRows<T>& a, uint32_t* faults,
                         const Workspace& workspace) {
  WorkspaceLayout layout;
  const SortMemory memory = add_sort(layout, a.rows);
  const size_t parts = layout.add<float>(blocks_for(a.rows, kTile) * 2 * a.width);
  std::byte* bytes = workspace(layout.bytes());
  launch(place.stream, {grid_for(a.rows, kThreads, place.multiprocessors)}, write_keys<T>, a,
         layout.at<int32_t>(bytes, memory.keys[0]), faults);
  const SortedPositions sorted =
      sort_positions(place, layout, memory, bytes, a.rows, a.vocabulary + 1);
  return {sorted, layout.at<float>(bytes, parts)};
}

template <class T, int kCount, class Workspace>
void add_token_rows(const KernelPlace& place, const TokenRows<T>& a, const EmbeddingBackward& call,
                    uint32_t* faults, const Workspace& workspace) {
  const SortedTokens tokens = sort_tokens(place, a, faults, workspace);
  const RowsByKey<float, T> rows{a.table, a.dy,    tokens.sorted,
                                 a.rows,  a.width, static_cast<int32_t>(a.vocabulary)};
  const int threads = threads_for(blocks_for(a.width, kCount));
  if (call.generic || call.sum.order == Order::invariant) {
    const bool invariant = call.sum.order == Order::invariant;
    launch(place.stream, {a.rows, threads}, add_rows_of_each_key<float, T, kCount>, rows,
           invariant ? a.per_sample : a.rows, !invariant);
    return;
  }
  const LaunchShape tiles{blocks_for(a.rows, kTile), threads};
  launch(place.stream, tiles, add_tile<T, kCount>, rows, tokens.parts);
  launch(place.stream, tiles, join_tiles<T, kCount>, rows, tokens.parts);
}

}  // namespace
}  // namespace deterministic

void CudaKernels::embedding_backward(const EmbeddingBackward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.dtable.columns();
  require_shapes(call);
  const int64_t per_sample = rows / call.samples;
  if (rows == 0) return;
  by_type_and_width(
      call.dy.type, width, {call.dy.data, call.dtable.data, call.dposition_table.data},
      [&](auto tag, auto count) {
        using T = typename decltype(tag)::type;
        constexpr int kCount = decltype(count)::value;
        const TokenRows<T> a{call.dtable.f32(), data_of<T>(call.dy), call.tokens.i32(), rows, width,
                             per_sample,        call.dtable.rows(),  call.part};
        const auto shape = [&](int64_t numbers) {
          return LaunchShape{grid_for(numbers, int64_t{kThreads} * kCount, place_.multiprocessors)};
        };
        if (call.sum.order == Order::arrival && !call.generic) {
          launch(place_.stream, shape(rows * width), fast::add_token_rows<T, kCount>, a,
                 packed_rows<kCount>(rows, width), fault_word());
        } else {
          deterministic::add_token_rows<T, kCount>(
              place_, a, call, fault_word(), [this](size_t bytes) { return workspace(bytes); });
        }
        if (!call.dposition_table) return;
        const auto kernel = call.sum.order == Order::invariant
                                ? add_position_rows<T, kCount, true>
                                : add_position_rows<T, kCount, false>;
        launch(place_.stream, shape(per_sample * width), kernel, a, call.dposition_table.f32(),
               call.places, packed_rows<kCount>(per_sample, width));
      });
}

}  // namespace dettax
