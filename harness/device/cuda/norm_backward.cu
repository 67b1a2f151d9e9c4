// LayerNorm and RMSNorm, backward. dx is each row's own. dgamma and dbeta are sums over rows; a block adds those of its rows in shared
// memory, each thread its own columns. How the blocks' sums meet is the difference:
//   fast           blocks take rows in turn and add their sums to the result by atomics, in order of arrival
//   deterministic  a block for every kChunk rows of a sample, whose sums it writes; a second kernel adds them by a tree over the
//                  chunks of a sample and a tree over samples. Costs 1/kChunk more traffic twice and a second launch.

#include "harness/device/checks.h"
#include "harness/device/cuda/norm.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int64_t kChunk = 32;  // rows

template <class T>
struct NormGradient {
  T* dx;
  const T* dy;
  const T* x;
  const float* mean;  // null: rms
  const float* rstd;
  const T* gamma;
  int64_t width;
  bool accumulate_dx;
};

// dx of one row; its part of dgamma and dbeta is added to sums[0, width) and sums[width, 2 width), of which each thread has its own.
template <class T, int kCount, int kItems>
__device__ void norm_backward_row(const NormGradient<T>& a, int64_t row, float* sums) {
  const RowItems<T, kCount, kItems> x(a.x + row * a.width, a.width);
  const RowItems<T, kCount, kItems> dy(a.dy + row * a.width, a.width);
  const float mean = a.mean == nullptr ? 0.0f : a.mean[row];
  const float rstd = a.rstd[row];
  float totals[2] = {0, 0};
  x.for_each([&](int item, int64_t column, const Floats<kCount>& v) {
    const auto g = dy.at(item);
    const auto gamma = load<kCount>(a.gamma + column);
    for (int k = 0; k < kCount; ++k) {
      const float scaled = g.at[k] * gamma.at[k];
      totals[0] += scaled;
      totals[1] = fmaf(scaled, v.at[k] - mean, totals[1]);
    }
  });
  block_sums(totals);
  const auto width = static_cast<float>(a.width);
  const float shift = a.mean == nullptr ? 0.0f : totals[0] / width;
  const float slope = totals[1] * rstd / width;
  x.for_each([&](int item, int64_t column, const Floats<kCount>& v) {
    const auto g = dy.at(item);
    const auto gamma = load<kCount>(a.gamma + column);
    auto out = a.accumulate_dx ? load<kCount>(a.dx + row * a.width + column) : zeros<kCount>();
    auto dgamma = load<kCount>(sums + column);
    for (int k = 0; k < kCount; ++k) {
      const float normal = (v.at[k] - mean) * rstd;
      out.at[k] = fmaf(fmaf(-normal, slope, fmaf(g.at[k], gamma.at[k], -shift)), rstd, out.at[k]);
      dgamma.at[k] = fmaf(g.at[k], normal, dgamma.at[k]);
    }
    store(a.dx + row * a.width + column, out);
    store(sums + column, dgamma);
    if (a.mean == nullptr) return;
    auto dbeta = load<kCount>(sums + a.width + column);
    for (int k = 0; k < kCount; ++k) dbeta.at[k] += g.at[k];
    store(sums + a.width + column, dbeta);
  });
}

template <int kCount>
__device__ void clear_columns(float* sums, int64_t width) {
  for (int64_t c = int64_t{thread_index()} * kCount; c < width;
       c += int64_t{block_threads()} * kCount) {
    store(sums + c, zeros<kCount>());
    store(sums + width + c, zeros<kCount>());
  }
}

}  // namespace

namespace fast {
namespace {

template <class T, int kCount, int kItems>
__global__ void __launch_bounds__(kMostThreads<kItems>)
    norm_backward_rows(NormGradient<T> a, int64_t rows, float* dgamma, float* dbeta) {
  auto* sums = dynamic_shared<float>();
  clear_columns<kCount>(sums, a.width);
  for (int64_t row = block_index(); row < rows; row += grid_blocks()) {
    norm_backward_row<T, kCount, kItems>(a, row, sums);
  }
  for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
       c += int64_t{block_threads()} * kCount) {
    atomic_add<kCount>(dgamma + c, load<kCount>(sums + c));
    if (dbeta != nullptr) atomic_add<kCount>(dbeta + c, load<kCount>(sums + a.width + c));
  }
}

}  // namespace
}  // namespace fast

namespace deterministic {
namespace {

struct Chunks {
  int64_t samples, rows_per_sample, per_sample;
  int64_t count() const { return samples * per_sample; }
};

// partials[chunk, 2 width]
template <class T, int kCount, int kItems>
__global__ void __launch_bounds__(kMostThreads<kItems>)
    norm_backward_chunk(NormGradient<T> a, Chunks chunks, float* partials) {
  auto* sums = dynamic_shared<float>();
  clear_columns<kCount>(sums, a.width);
  const int64_t sample = block_index() / chunks.per_sample;
  const int64_t begin = block_index() % chunks.per_sample * kChunk;
  const int64_t count =
      chunks.rows_per_sample - begin < kChunk ? chunks.rows_per_sample - begin : kChunk;
  const int64_t first = sample * chunks.rows_per_sample + begin;
  for (int64_t row = first; row < first + count; ++row) {
    norm_backward_row<T, kCount, kItems>(a, row, sums);
  }
  float* to = partials + block_index() * 2 * a.width;
  for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
       c += int64_t{block_threads()} * kCount) {
    store(to + c, load<kCount>(sums + c));
    store(to + a.width + c, load<kCount>(sums + a.width + c));
  }
}

// A thread a column of dgamma and then of dbeta.
__global__ void add_chunks(const float* partials, Chunks chunks, int64_t width, float* dgamma,
                           float* dbeta, bool accumulate) {
  const int64_t columns = dbeta == nullptr ? width : 2 * width;
  for (int64_t c = grid_thread(); c < columns; c += grid_threads()) {
    TreeSum whole;
    for (int64_t s = 0; s < chunks.samples; ++s) {
      TreeSum sample;
      for (int64_t k = 0; k < chunks.per_sample; ++k) {
        sample.add(partials[(s * chunks.per_sample + k) * 2 * width + c]);
      }
      whole.add(sample.sum());
    }
    float* to = c < width ? dgamma + c : dbeta + c - width;
    *to = accumulate ? *to + whole.sum() : whole.sum();
  }
}

}  // namespace
}  // namespace deterministic

void CudaKernels::norm_backward(const NormBackward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require_shapes(call);
  require(call.dx.type == call.x.type && call.dy.type == call.x.type &&
              call.gamma.type == call.x.type && (layer || !call.dbeta),
          "norm_backward (types)");
  const size_t shared = static_cast<size_t>(2 * width) * sizeof(float);
  if (shared > kSharedLimit) {
    throw Error(ErrorKind::unsupported,
                "the backward pass of a norm over rows of more than 28928 numbers is not "
                "implemented on CUDA");
  }
  float* dgamma = call.dgamma.f32();
  float* dbeta = call.dbeta ? call.dbeta.f32() : nullptr;
  const bool arrival = call.sum.order == Order::arrival;
  const int64_t samples = call.sum.order == Order::invariant ? call.samples : 1;
  const deterministic::Chunks chunks{samples, rows / samples, blocks_for(rows / samples, kChunk)};
  float* partials = nullptr;
  if (arrival && !call.accumulate_parameters) {
    fill_bytes(call.dgamma, 0);
    if (call.dbeta) fill_bytes(call.dbeta, 0);
  } else if (!arrival) {
    partials = workspace_floats(chunks.count() * 2 * width);
  }
  by_type_and_width(
      call.x.type, width, {call.x.data, call.dy.data, call.dx.data, call.gamma.data, dgamma, dbeta},
      [&](auto tag, auto count) {
        using T = typename decltype(tag)::type;
        constexpr int kCount = decltype(count)::value;
        const NormGradient<T> a{data_of<T>(call.dx),
                                data_of<T>(call.dy),
                                data_of<T>(call.x),
                                layer ? call.mean.f32() : nullptr,
                                call.rstd.f32(),
                                data_of<T>(call.gamma),
                                width,
                                call.accumulate_dx};
        by_row_items(width / kCount, [&](auto items, int threads) {
          constexpr int kItems = decltype(items)::value;
          if (arrival) {
            const int64_t blocks = std::min<int64_t>(rows, int64_t{2} * place_.multiprocessors);
            launch(place_.stream, {blocks, threads, shared},
                   fast::norm_backward_rows<T, kCount, kItems>, a, rows, dgamma, dbeta);
          } else {
            launch(place_.stream, {chunks.count(), threads, shared},
                   deterministic::norm_backward_chunk<T, kCount, kItems>, a, chunks, partials);
          }
        });
      });
  if (!arrival) {
    launch(place_.stream, {grid_for(2 * width, kThreads, place_.multiprocessors)},
           deterministic::add_chunks, partials, chunks, width, dgamma, dbeta,
           call.accumulate_parameters);
  }
}

}  // namespace dettax
