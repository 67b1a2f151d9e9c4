// add, add_bias_residual, scale, fill_bytes, copy: every element on its own, so that order and threads do not matter.

#include <algorithm>
#include <cstring>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

void add_range(float* to, const float* from, size_t count) {
  for_each_lanes(count, [&](auto access, size_t i) {
    access.write(add(access.read(to + i), access.read(from + i)), to + i);
  });
}

void add_bias_residual_row(float* y, const float* bias, const float* residual, size_t count) {
  for_each_lanes(count, [&](auto access, size_t i) {
    Lanes value = access.read(y + i);
    if (bias != nullptr) value = add(value, access.read(bias + i));
    if (residual != nullptr) value = add(value, access.read(residual + i));
    access.write(value, y + i);
  });
}

void scale_range(float* values, float factor, size_t count) {
  const Lanes f = set(factor);
  for_each_lanes(count, [&](auto access, size_t i) {
    access.write(mul(access.read(values + i), f), values + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(add_range);
HWY_EXPORT(add_bias_residual_row);
HWY_EXPORT(scale_range);

constexpr int64_t kGrain = 16384;  // elements; whole pages, so that threads do not share any

}  // namespace

void CpuOps::add(const Tensor& to, const Tensor& from) {
  require(to.count() == from.count(), "add");
  float* a = to.f32();
  const float* b = from.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(add_range);
  team_.parallel_for(to.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    kernel(a + begin, b + begin, static_cast<size_t>(end - begin));
  });
}

void CpuOps::add_bias_residual(const AddBiasResidual& call) {
  const int64_t width = call.y.columns();
  require_shapes(call);
  float* y = call.y.f32();
  const float* bias = call.bias ? call.bias.f32() : nullptr;
  const float* residual = call.residual ? call.residual.f32() : nullptr;
  const auto kernel = HWY_DYNAMIC_DISPATCH(add_bias_residual_row);
  const int64_t grain = std::max<int64_t>(1, kGrain / width);
  team_.parallel_for(call.y.rows(), grain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin * width; at < end * width; at += width) {
      kernel(y + at, bias, residual == nullptr ? nullptr : residual + at,
             static_cast<size_t>(width));
    }
  });
}

void CpuOps::scale(const Tensor& values, double factor) {
  float* data = values.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(scale_range);
  team_.parallel_for(values.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    kernel(data + begin, static_cast<float>(factor), static_cast<size_t>(end - begin));
  });
}

void CpuOps::fill_bytes(const Tensor& values, unsigned char byte) {
  auto* data = static_cast<unsigned char*>(values.data);
  team_.parallel_for(values.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    std::memset(data + 4 * begin, byte, static_cast<size_t>(4 * (end - begin)));
  });
}

void CpuOps::copy(const Tensor& to, const Tensor& from) {
  require(to.count() == from.count() && to.type == from.type, "copy");
  auto* a = static_cast<unsigned char*>(to.data);
  const auto* b = static_cast<const unsigned char*>(from.data);
  team_.parallel_for(to.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    std::memcpy(a + 4 * begin, b + 4 * begin, static_cast<size_t>(4 * (end - begin)));
  });
}

void CpuOps::copy_columns(const CopyColumns& call) {
  const int64_t to_step = call.to.columns();
  const int64_t from_step = call.from.columns();
  require_shapes(call);
  float* to = call.to.f32() + call.to_column;
  const float* from = call.from.f32() + call.from_column;
  const auto kernel = HWY_DYNAMIC_DISPATCH(add_range);
  const int64_t grain = std::max<int64_t>(1, kGrain / call.columns);
  team_.parallel_for(call.to.rows(), grain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = to + r * to_step;
      if (call.add) {
        kernel(row, from + r * from_step, static_cast<size_t>(call.columns));
      } else {
        std::copy_n(from + r * from_step, call.columns, row);
      }
    }
  });
}

}  // namespace dettax
#endif
