// Causal attention, backward: the sums over rows that every item needs, then the items of
// attention_backward_item.cpp, shared out by the variant.

#include "harness/device/cpu/attention_backward.h"

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

float row_product(const float* a, const float* b, size_t width) {
  return row_sum(width, [&](auto access, size_t i, const Lanes& partial) {
    return mul_add(access.read(a + i), access.read(b + i), partial);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {

HWY_EXPORT(row_product);

void project_rows(Team& team, const AttentionBlocks& s, const float* dout, const float* out,
                  float* projection) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(row_product);
  team.parallel_for(static_cast<int64_t>(s.samples * s.queries), 1, false,
                    [&](int64_t begin, int64_t end, int) {
                      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                        const size_t sample = i / s.queries;
                        const size_t query = s.first_query + i % s.queries;
                        for (size_t h = 0; h < s.heads; ++h) {
                          const size_t at = ((sample * s.tokens + query) * s.heads + h) * s.width;
                          projection[(sample * s.heads + h) * s.tokens + query] =
                              kernel(dout + at, out + at, s.width);
                        }
                      }
                    });
}

}  // namespace

void CpuOps::attention_backward(const AttentionBackward& call) {
  const AttentionBlocks s{checked_shape(call)};
  const size_t per_head = s.samples * s.heads * s.tokens;
  const size_t padded = (s.width + 15) / 16 * 16;
  const size_t each = 8 * padded * kAttentionBlock + 2 * kAttentionBlock * kAttentionBlock;
  const size_t projections = (per_head + 15) / 16 * 16;
  float* scratch = scratch_.floats(projections + static_cast<size_t>(team_.size()) * each);
  project_rows(team_, s, call.dout.f32(), call.out.f32(), scratch);
  const AttentionBackwardWork work{.shape = s,
                                   .dqkv = call.dqkv.f32(),
                                   .dkeys = keys_of(s, call.dqkv, call.dkeys_values),
                                   .qkv = call.qkv.f32(),
                                   .keys = keys_of(s, call.qkv, call.block.keys_values),
                                   .dout = call.dout.f32(),
                                   .log_sum_exp = call.log_sum_exp.f32(),
                                   .projection = scratch,
                                   .scale = static_cast<float>(call.scale),
                                   .memory = scratch + projections,
                                   .memory_each = each};
  if (call.sum.order == Order::arrival) {
    return attention_backward_on_arrival(team_, work, call.sum.dynamic_schedule);
  }
  attention_backward_in_order(team_, work, call.sum.dynamic_schedule);
}

}  // namespace dettax
#endif
