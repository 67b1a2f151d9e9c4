// gelu in its tanh form and SwiGLU. gelu(x) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3): the same function as
// 0.5 x (1 + tanh u) without its cancellation.

#include <cmath>

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr float kGeluTwice = 1.5957691216057308f;      // 2 sqrt(2/pi)
constexpr float kGeluTwiceCubic = 0.071354816272850f;  // the same * 0.044715

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ inline float gelu_gate(float x) {
  return sigmoid_of(x * fmaf(x * x, kGeluTwiceCubic, kGeluTwice));
}

template <class T>
struct GeluRange {
  T* y;
  const T* x;
  template <int kCount>
  __device__ void at(int64_t i) const {
    auto values = load<kCount>(x + i);
    for (int k = 0; k < kCount; ++k) values.at[k] *= gelu_gate(values.at[k]);
    store(y + i, values);
  }
};

template <class T>
struct GeluSlopeRange {
  T* dx;
  const T* x;
  template <int kCount>
  __device__ void at(int64_t i) const {
    auto values = load<kCount>(dx + i);
    const auto before = load<kCount>(x + i);
    for (int k = 0; k < kCount; ++k) {
      const float v = before.at[k];
      const float gate = gelu_gate(v);
      const float slope = fmaf(v * v, 3 * kGeluTwiceCubic, kGeluTwice);
      values.at[k] *= fmaf(v * slope, gate * (1.0f - gate), gate);
    }
    store(dx + i, values);
  }
};

template <class T, int kCount>
__global__ void swiglu_rows(T* y, const T* x, int64_t width, PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto place = packs.place(i);
    const T* from = x + place.row * 2 * width + place.column;
    auto a = load<kCount>(from);
    const auto b = load<kCount>(from + width);
    for (int k = 0; k < kCount; ++k) a.at[k] = a.at[k] * sigmoid_of(a.at[k]) * b.at[k];
    store(y + i * kCount, a);
  }
}

// d silu(a) = s + a s (1 - s) with s = sigmoid(a).
template <class T, int kCount>
__global__ void swiglu_backward_rows(T* dx, const T* dy, const T* x, int64_t width,
                                     PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto place = packs.place(i);
    const int64_t at = place.row * 2 * width + place.column;
    auto a = load<kCount>(x + at);
    auto b = load<kCount>(x + at + width);
    const auto g = load<kCount>(dy + i * kCount);
    for (int k = 0; k < kCount; ++k) {
      const float s = sigmoid_of(a.at[k]);
      const float silu = a.at[k] * s;
      a.at[k] = g.at[k] * b.at[k] * fmaf(silu, 1.0f - s, s);
      b.at[k] = g.at[k] * silu;
    }
    store(dx + at, a);
    store(dx + at + width, b);
  }
}

template <class F>
void over_range(const KernelPlace& place, const Tensor& to, const Tensor& from, const F& f) {
  by_type(to.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (aligned({to.data, from.data})) {
      launch_for_each<kWide<T>>(place, to.count(), f(tag));
    } else {
      launch_for_each<1>(place, to.count(), f(tag));
    }
  });
}

}  // namespace

void CudaKernels::gelu_forward(const GeluForward& call) {
  require(call.x.count() == call.y.count() && call.x.type == call.y.type, "gelu_forward");
  over_range(place_, call.y, call.x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return GeluRange<T>{data_of<T>(call.y), data_of<T>(call.x)};
  });
}

void CudaKernels::gelu_backward(const Tensor& dx, const Tensor& x) {
  require(dx.count() == x.count() && dx.type == x.type, "gelu_backward");
  over_range(place_, dx, x, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return GeluSlopeRange<T>{data_of<T>(dx), data_of<T>(x)};
  });
}

void CudaKernels::swiglu_forward(const SwigluForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns() / 2;
  require(
      call.x.columns() == 2 * width && call.y.count() == rows * width && call.y.type == call.x.type,
      "swiglu_forward");
  by_type_and_width(call.x.type, width, {call.x.data, call.y.data}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    constexpr int kCount = decltype(count)::value;
    launch(place_.stream,
           {grid_for(rows * width, int64_t{kThreads} * kCount, place_.multiprocessors)},
           swiglu_rows<T, kCount>, data_of<T>(call.y), data_of<T>(call.x), width,
           packed_rows<kCount>(rows, width));
  });
}

void CudaKernels::swiglu_backward(const SwigluBackward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns() / 2;
  require_shapes(call);
  require(call.dx.type == call.x.type && call.dy.type == call.x.type, "swiglu_backward");
  by_type_and_width(
      call.x.type, width, {call.x.data, call.dx.data, call.dy.data}, [&](auto tag, auto count) {
        using T = typename decltype(tag)::type;
        constexpr int kCount = decltype(count)::value;
        launch(place_.stream,
               {grid_for(rows * width, int64_t{kThreads} * kCount, place_.multiprocessors)},
               swiglu_backward_rows<T, kCount>, data_of<T>(call.dx), data_of<T>(call.dy),
               data_of<T>(call.x), width, packed_rows<kCount>(rows, width));
      });
}

}  // namespace dettax
