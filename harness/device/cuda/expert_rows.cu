// Tokens to their experts and back. Where the variants of the way back differ:
//   fast           rows are added to their tokens by atomics, in the type of the result, as scatter_add does it
//   deterministic  one owner a number adds a token's rows in order of choice
//   generic        weighted rows in a temporary, a sort by token, then one chain a token, as index_put does it

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/row_sums.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

template <class T, int kCount>
__global__ void permute(T* y, const T* x, const int32_t* index, int64_t width, Divider divisor,
                        PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [row, column] = packs.place(i);
    const int64_t source = index[row];
    if (source < 0) continue;
    *reinterpret_cast<Pack<T, kCount>*>(y + i * kCount) =
        load_pack<kCount>(x + divisor.quotient(source) * width + column);
  }
}

template <class T>
struct RowsBack {
  T* y;
  const T* rows;
  const float* weights;  // or null
  const T* residual;     // or null
  const int32_t* slots;
  const int32_t* sources;
  int64_t tokens, choices, width;
  Divider token;  // of a source
  __device__ float weight(int64_t source) const {
    return weights == nullptr ? 1.0f : weights[source];
  }
};

// drows[slot] = weight * dy[token]; dweights = dy[token] . rows[slot]. A block a choice.
template <class T>
struct RowsBackGradient {
  T* drows;
  float* dweights;
  const T* dy;
  const T* rows;
  const float* weights;
  const int32_t* slots;
  int64_t count, choices, width;
};
template <class T, int kCount>
__global__ void unpermute_gradient(RowsBackGradient<T> a) {
  for (int64_t i = block_index(); i < a.count; i += grid_blocks()) {
    const int64_t slot = a.slots[i];
    float dot = 0;
    if (slot >= 0) {
      for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
           c += int64_t{block_threads()} * kCount) {
        auto dy = load<kCount>(a.dy + i / a.choices * a.width + c);
        const auto row = load<kCount>(a.rows + slot * a.width + c);
        for (int k = 0; k < kCount; ++k) {
          dot = fmaf(dy.at[k], row.at[k], dot);
          dy.at[k] *= a.weights[i];
        }
        store(a.drows + slot * a.width + c, dy);
      }
    }
    dot = block_sum(dot);
    if (thread_index() == 0) a.dweights[i] = dot;
  }
}

}  // namespace

namespace fast {
namespace {

template <class T, int kCount>
__global__ void add_rows(RowsBack<T> a, PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [row, column] = packs.place(i);
    const int64_t source = a.sources[row];
    if (source < 0) continue;
    auto values = load<kCount>(a.rows + i * kCount);
    const float weight = a.weight(source);
    for (int k = 0; k < kCount; ++k) values.at[k] *= weight;
    atomic_add<kCount>(a.y + a.token.quotient(source) * a.width + column, values);
  }
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

template <class T, int kCount>
__global__ void combine(RowsBack<T> a, PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [token, column] = packs.place(i);
    auto total = zeros<kCount>();
    for (int64_t source = token * a.choices; source < (token + 1) * a.choices; ++source) {
      const int64_t slot = a.slots[source];
      if (slot < 0) continue;
      const auto row = load<kCount>(a.rows + slot * a.width + column);
      const float weight = a.weight(source);
      for (int k = 0; k < kCount; ++k) total.at[k] = fmaf(weight, row.at[k], total.at[k]);
    }
    if (a.residual != nullptr) {
      const auto old = load<kCount>(a.residual + i * kCount);
      for (int k = 0; k < kCount; ++k) total.at[k] = old.at[k] + total.at[k];
    }
    store(a.y + i * kCount, total);
  }
}

// Rows without a source get the key behind all tokens.
template <class T, int kCount>
__global__ void weight_rows(RowsBack<T> a, T* weighted, int32_t* keys, PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [row, column] = packs.place(i);
    const int64_t source = a.sources[row];
    if (column == 0) {
      keys[row] = static_cast<int32_t>(source < 0 ? a.tokens : a.token.quotient(source));
    }
    if (source < 0) continue;
    auto values = load<kCount>(a.rows + i * kCount);
    const float weight = a.weight(source);
    for (int k = 0; k < kCount; ++k) values.at[k] *= weight;
    store(weighted + i * kCount, values);
  }
}

template <class T, int kCount, class Workspace>
void add_as_index_put(const KernelPlace& place, const RowsBack<T>& a, const LaunchShape& shape,
                      const Workspace& workspace) {
  const int64_t rows = a.tokens * a.choices;
  WorkspaceLayout layout;
  const SortMemory memory = add_sort(layout, rows);
  const size_t products = layout.add<T>(rows * a.width);
  std::byte* bytes = workspace(layout.bytes());
  auto* weighted = layout.at<T>(bytes, products);
  launch(place.stream, shape, weight_rows<T, kCount>, a, weighted,
         layout.at<int32_t>(bytes, memory.keys[0]), packed_rows<kCount>(rows, a.width));
  const SortedPositions sorted = sort_positions(place, layout, memory, bytes, rows, a.tokens + 1);
  const RowsByKey<T, T> by_key{a.y,  weighted, sorted,
                               rows, a.width,  static_cast<int32_t>(a.tokens)};
  launch(place.stream, {rows, threads_for(blocks_for(a.width, kCount))},
         add_rows_of_each_key<T, T, kCount>, by_key, rows, true);
}

}  // namespace
}  // namespace deterministic

void CudaKernels::permute_rows(const PermuteRows& call) {
  const int64_t width = call.x.columns();
  require(call.y.columns() == width && call.divisor > 0 && call.index.count() >= call.y.rows() &&
              call.y.type == call.x.type,
          "permute_rows");
  by_type_and_width(call.x.type, width, {call.x.data, call.y.data}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    constexpr int kCount = decltype(count)::value;
    launch(place_.stream,
           {grid_for(call.y.count(), int64_t{kThreads} * kCount, place_.multiprocessors)},
           permute<T, kCount>, data_of<T>(call.y), data_of<T>(call.x), call.index.i32(), width,
           Divider(call.divisor), packed_rows<kCount>(call.y.rows(), width));
  });
}

void CudaKernels::unpermute_rows(const UnpermuteRows& call) {
  const int64_t tokens = call.y.rows();
  require_shapes(call);
  const int64_t choices = call.plan.slots.columns();
  const int64_t width = call.y.columns();
  require((!call.residual || call.residual.type == call.y.type) && call.rows.type == call.y.type,
          "unpermute_rows");
  const bool in_place = call.generic || call.sum.order == Order::arrival;
  if (in_place && !call.residual) fill_bytes(call.y, 0);
  if (in_place && call.residual && call.residual.data != call.y.data) copy(call.y, call.residual);
  by_type_and_width(call.y.type, width, {call.y.data, call.rows.data, call.residual.data},
                    [&](auto tag, auto count) {
                      using T = typename decltype(tag)::type;
                      constexpr int kCount = decltype(count)::value;
                      const RowsBack<T> a{data_of<T>(call.y),
                                          data_of<T>(call.rows),
                                          call.weights ? call.weights.f32() : nullptr,
                                          data_of<T>(call.residual),
                                          call.plan.slots.i32(),
                                          call.plan.sources.i32(),
                                          tokens,
                                          choices,
                                          width,
                                          Divider(choices)};
                      const auto shape = [&](int64_t rows) {
                        return LaunchShape{grid_for(rows * width, int64_t{kThreads} * kCount,
                                                    place_.multiprocessors)};
                      };
                      if (call.generic) {
                        deterministic::add_as_index_put<T, kCount>(
                            place_, a, shape(tokens * choices),
                            [this](size_t bytes) { return workspace(bytes); });
                      } else if (call.sum.order == Order::arrival) {
                        launch(place_.stream, shape(tokens * choices), fast::add_rows<T, kCount>, a,
                               packed_rows<kCount>(tokens * choices, width));
                      } else {
                        launch(place_.stream, shape(tokens), deterministic::combine<T, kCount>, a,
                               packed_rows<kCount>(tokens, width));
                      }
                    });
}

void CudaKernels::unpermute_rows_backward(const UnpermuteRowsBackward& call) {
  const int64_t tokens = call.dy.rows();
  const int64_t width = call.dy.columns();
  require_shapes(call);
  const int64_t choices = call.plan.slots.columns();
  require(call.drows.type == call.dy.type && call.rows.type == call.dy.type,
          "unpermute_rows_backward");
  by_type_and_width(call.dy.type, width, {call.dy.data, call.rows.data, call.drows.data},
                    [&](auto tag, auto count) {
                      using T = typename decltype(tag)::type;
                      constexpr int kCount = decltype(count)::value;
                      const RowsBackGradient<T> a{data_of<T>(call.drows),
                                                  call.dweights.f32(),
                                                  data_of<T>(call.dy),
                                                  data_of<T>(call.rows),
                                                  call.weights.f32(),
                                                  call.plan.slots.i32(),
                                                  tokens * choices,
                                                  choices,
                                                  width};
                      launch(place_.stream,
                             {grid_for(a.count, 1, place_.multiprocessors),
                              threads_for(blocks_for(width, kCount))},
                             unpermute_gradient<T, kCount>, a);
                    });
}

}  // namespace dettax
