// LayerNorm and RMSNorm, forward: a block a row, which is read once and kept in registers. A row's sums are its block's own, in a fixed
// order, so that there is one form for all modes.

#include <cmath>

#include "harness/device/checks.h"
#include "harness/device/cuda/norm.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

template <class T>
struct NormInputs {
  T* y;
  float* mean;  // null: rms
  float* rstd;
  const T* x;
  const T* gamma;
  const T* beta;  // or null
  int64_t rows, width;
  float epsilon;
};

template <class T, int kCount, int kItems>
__global__ void __launch_bounds__(kMostThreads<kItems>) norm_rows(NormInputs<T> a) {
  for (int64_t row = block_index(); row < a.rows; row += grid_blocks()) {
    const RowItems<T, kCount, kItems> x(a.x + row * a.width, a.width);
    const auto width = static_cast<float>(a.width);
    float total = 0;
    if (a.mean != nullptr) {
      x.for_each([&](int, int64_t, const Floats<kCount>& v) {
        for (int k = 0; k < kCount; ++k) total += v.at[k];
      });
      total = block_sum(total);
    }
    const float mean = total / width;
    float squares = 0;
    x.for_each([&](int, int64_t, const Floats<kCount>& v) {
      for (int k = 0; k < kCount; ++k) {
        const float apart = v.at[k] - mean;
        squares = fmaf(apart, apart, squares);
      }
    });
    const float rstd = 1.0f / sqrtf(block_sum(squares) / width + a.epsilon);
    if (thread_index() == 0) {
      if (a.mean != nullptr) a.mean[row] = mean;
      a.rstd[row] = rstd;
    }
    x.for_each([&](int, int64_t column, Floats<kCount> v) {
      const auto gamma = load<kCount>(a.gamma + column);
      const auto beta = a.beta == nullptr ? zeros<kCount>() : load<kCount>(a.beta + column);
      for (int k = 0; k < kCount; ++k) {
        v.at[k] = fmaf((v.at[k] - mean) * rstd, gamma.at[k], beta.at[k]);
      }
      store(a.y + row * a.width + column, v);
    });
  }
}

}  // namespace

void CudaKernels::norm_forward(const NormForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns();
  const bool layer = call.kind == Norm::layer;
  require_shapes(call);
  require(call.y.type == call.x.type && call.gamma.type == call.x.type &&
              (!call.beta || call.beta.type == call.x.type),
          "norm_forward (types)");
  by_type_and_width(call.x.type, width, {call.x.data, call.y.data, call.gamma.data, call.beta.data},
                    [&](auto tag, auto count) {
                      using T = typename decltype(tag)::type;
                      constexpr int kCount = decltype(count)::value;
                      const NormInputs<T> inputs{data_of<T>(call.y),
                                                 layer ? call.mean.f32() : nullptr,
                                                 call.rstd.f32(),
                                                 data_of<T>(call.x),
                                                 data_of<T>(call.gamma),
                                                 data_of<T>(call.beta),
                                                 rows,
                                                 width,
                                                 static_cast<float>(call.epsilon)};
                      by_row_items(width / kCount, [&](auto items, int threads) {
                        launch(place_.stream, {grid_for(rows, 1, place_.multiprocessors), threads},
                               norm_rows<T, kCount, decltype(items)::value>, inputs);
                      });
                    });
}

}  // namespace dettax
