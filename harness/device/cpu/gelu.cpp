// The tanh form of gelu where no matrix product ends in it. One function makes every element here and in the products' epilogue, so
// that what is computed again has the same bits.

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/gelu.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"
#include "harness/device/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

void gelu_range(float* y, const float* x, size_t count) {
  for_each_lanes(count, [&](auto access, size_t i) {
    const Lanes v = access.read(x + i);
    access.write(each_part([&](size_t p) { return gelu(FloatTag(), v.part[p]); }), y + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(gelu_range);
constexpr int64_t kGrain = 4096;  // elements
}  // namespace

void CpuOps::gelu_forward(const GeluForward& call) {
  require(call.x.count() == call.y.count(), "gelu_forward");
  float* y = call.y.f32();
  const float* x = call.x.f32();
  const auto kernel = HWY_DYNAMIC_DISPATCH(gelu_range);
  team_.parallel_for(call.x.count(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    kernel(y + begin, x + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace dettax
#endif
