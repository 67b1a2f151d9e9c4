// add, add_bias_residual, scale, fill_bytes, copy (with a cast), copy_columns: every element on its own, so that no order shows.

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

template <class T>
struct AddRange {
  T* to;
  const T* from;
  template <int kCount>
  __device__ void at(int64_t i) const {
    auto values = load<kCount>(to + i);
    const auto more = load<kCount>(from + i);
    for (int k = 0; k < kCount; ++k) values.at[k] += more.at[k];
    store(to + i, values);
  }
};

template <class T>
struct ScaleRange {
  T* values;
  float factor;
  template <int kCount>
  __device__ void at(int64_t i) const {
    auto v = load<kCount>(values + i);
    for (int k = 0; k < kCount; ++k) v.at[k] *= factor;
    store(values + i, v);
  }
};

template <class To, class From>
struct CastRange {
  To* to;
  const From* from;
  template <int kCount>
  __device__ void at(int64_t i) const {
    store(to + i, load<kCount>(from + i));
  }
};

template <class T, int kCount>
__global__ void add_bias_residual_rows(T* y, const T* bias, const T* residual,
                                       PackedRows<kCount> packs) {
  for (int64_t pack = grid_thread(); pack < packs.count(); pack += grid_threads()) {
    const int64_t i = pack * kCount;
    auto values = load<kCount>(y + i);
    if (bias != nullptr) {
      const auto more = load<kCount>(bias + packs.place(pack).column);
      for (int k = 0; k < kCount; ++k) values.at[k] += more.at[k];
    }
    if (residual != nullptr) {
      const auto more = load<kCount>(residual + i);
      for (int k = 0; k < kCount; ++k) values.at[k] += more.at[k];
    }
    store(y + i, values);
  }
}

template <class T, int kCount>
__global__ void copy_some_columns(T* to, int64_t to_step, const T* from, int64_t from_step,
                                  PackedRows<kCount> packs, bool add) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto place = packs.place(i);
    T* at = to + place.row * to_step + place.column;
    auto values = load<kCount>(from + place.row * from_step + place.column);
    if (add) {
      const auto old = load<kCount>(at);
      for (int k = 0; k < kCount; ++k) values.at[k] += old.at[k];
    }
    store(at, values);
  }
}

template <class To, class From>
void cast(const KernelPlace& place, const Tensor& to, const Tensor& from) {
  const CastRange<To, From> range{data_of<To>(to), data_of<From>(from)};
  if (aligned({to.data, from.data})) {
    launch_for_each<kWide<Bf16>>(place, to.count(), range);
  } else {
    launch_for_each<1>(place, to.count(), range);
  }
}

}  // namespace

void CudaKernels::add(const Tensor& to, const Tensor& from) {
  require(to.count() == from.count() && to.type == from.type, "add");
  by_type(to.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AddRange<T> range{data_of<T>(to), data_of<T>(from)};
    if (aligned({to.data, from.data})) {
      launch_for_each<kWide<T>>(place_, to.count(), range);
    } else {
      launch_for_each<1>(place_, to.count(), range);
    }
  });
}

void CudaKernels::add_bias_residual(const AddBiasResidual& call) {
  const int64_t width = call.y.columns();
  require_shapes(call);
  by_type_and_width(
      call.y.type, width, {call.y.data, call.bias.data, call.residual.data},
      [&](auto tag, auto count) {
        using T = typename decltype(tag)::type;
        constexpr int kCount = decltype(count)::value;
        launch(place_.stream,
               {grid_for(call.y.count(), int64_t{kThreads} * kCount, place_.multiprocessors)},
               add_bias_residual_rows<T, kCount>, data_of<T>(call.y), data_of<T>(call.bias),
               data_of<T>(call.residual), packed_rows<kCount>(call.y.rows(), width));
      });
}

void CudaKernels::scale(const Tensor& values, double factor) {
  by_type(values.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ScaleRange<T> range{data_of<T>(values), static_cast<float>(factor)};
    if (aligned({values.data})) {
      launch_for_each<kWide<T>>(place_, values.count(), range);
    } else {
      launch_for_each<1>(place_, values.count(), range);
    }
  });
}

void CudaKernels::fill_bytes(const Tensor& values, unsigned char byte) {
  set_bytes(place_.stream, values.data, byte, static_cast<size_t>(values.bytes()));
}

void CudaKernels::copy(const Tensor& to, const Tensor& from) {
  require(to.count() == from.count(), "copy");
  if (to.type == from.type) {
    return copy_bytes(place_.stream, to.data, from.data, static_cast<size_t>(to.bytes()));
  }
  require(to.type != DType::i32 && from.type != DType::i32, "copy");
  if (to.type == DType::bf16) return cast<Bf16, float>(place_, to, from);
  cast<float, Bf16>(place_, to, from);
}

void CudaKernels::copy_columns(const CopyColumns& call) {
  const int64_t to_step = call.to.columns();
  const int64_t from_step = call.from.columns();
  require_shapes(call);
  require(call.to.type == call.from.type, "copy_columns");
  by_type(call.to.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = data_of<T>(call.to) + call.to_column;
    const T* from = data_of<T>(call.from) + call.from_column;
    const int64_t rows = call.to.rows();
    const auto run = [&](auto count) {
      constexpr int kCount = decltype(count)::value;
      launch(place_.stream,
             {grid_for(rows * call.columns, int64_t{kThreads} * kCount, place_.multiprocessors)},
             copy_some_columns<T, kCount>, to, to_step, from, from_step,
             packed_rows<kCount>(rows, call.columns), call.add);
    };
    const bool whole =
        call.columns % kWide<T> == 0 && to_step % kWide<T> == 0 && from_step % kWide<T> == 0;
    if (whole && aligned({to, from})) {
      run(std::integral_constant<int, kWide<T>>());
    } else {
      run(std::integral_constant<int, 1>());
    }
  });
}

}  // namespace dettax
