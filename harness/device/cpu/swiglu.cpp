// y = silu(a) * b with a, b the two halves of each row of x; silu(a) = a * sigmoid(a).

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/swiglu.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"
#include "harness/device/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE Lanes sigmoid_of(const Lanes& v) {
  return each_part([&](size_t p) { return sigmoid(FloatTag(), v.part[p]); });
}

void swiglu_row(float* y, const float* x, size_t width) {
  for_each_lanes(width, [&](auto access, size_t i) {
    const Lanes a = access.read(x + i);
    const Lanes b = access.read(x + width + i);
    access.write(mul(mul(a, sigmoid_of(a)), b), y + i);
  });
}

// d silu(a) = s + a s (1 - s) with s = sigmoid(a).
void swiglu_backward_row(float* dx, const float* dy, const float* x, size_t width) {
  for_each_lanes(width, [&](auto access, size_t i) {
    const Lanes a = access.read(x + i);
    const Lanes b = access.read(x + width + i);
    const Lanes g = access.read(dy + i);
    const Lanes s = sigmoid_of(a);
    const Lanes silu = mul(a, s);
    const Lanes slope = mul_add(silu, sub(set(1.0f), s), s);
    access.write(mul(mul(g, b), slope), dx + i);
    access.write(mul(g, silu), dx + width + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(swiglu_row);
HWY_EXPORT(swiglu_backward_row);
}  // namespace

void CpuOps::swiglu_forward(const SwigluForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns() / 2;
  require(call.x.columns() == 2 * width && call.y.count() == rows * width, "swiglu_forward");
  float* y = call.y.f32();
  const float* x = call.x.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(swiglu_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernel(y + r * width, x + 2 * r * width, static_cast<size_t>(width));
    }
  });
}

void CpuOps::swiglu_backward(const SwigluBackward& call) {
  const int64_t rows = call.x.rows();
  const int64_t width = call.x.columns() / 2;
  require_shapes(call);
  float* dx = call.dx.f32();
  const float* dy = call.dy.f32();
  const float* x = call.x.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(swiglu_backward_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernel(dx + 2 * r * width, dy + r * width, x + 2 * r * width, static_cast<size_t>(width));
    }
  });
}

}  // namespace dettax
#endif
