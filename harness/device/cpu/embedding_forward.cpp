#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/targets.h"
#include "harness/device/op_contracts.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/device/cpu/embedding_forward.cpp"
#include "hwy/foreach_target.h"
//
#include "harness/device/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace {

// A row that is another rank's is null and counts as zeros.
void embed_row(float* y, const float* row, const float* position, size_t width) {
  for_each_lanes(width, [&](auto access, size_t i) {
    const Lanes value = row == nullptr ? set(0.0f) : access.read(row + i);
    access.write(position == nullptr ? value : add(value, access.read(position + i)), y + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
namespace {
HWY_EXPORT(embed_row);
}

void CpuOps::embedding_forward(const EmbeddingForward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.table.columns();
  require_shapes(call);
  const int64_t per_sample = rows / call.samples;
  float* y = call.y.f32();
  const int32_t* tokens = call.tokens.i32();
  const int64_t vocabulary = call.table.rows();
  const float* table = call.table.f32();
  const float* positions = call.position_table ? call.position_table.f32() : nullptr;
  const auto kernel = HWY_DYNAMIC_DISPATCH(embed_row);
  team_.parallel_for(rows, 1, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t id = tokens[r] - call.part.first_id;
      const bool held = id >= 0 && id < vocabulary;
      require(held || call.part.partial, "embedding_forward (token)");
      const float* position =
          positions == nullptr
              ? nullptr
              : positions + call.places.position(r % per_sample, per_sample) * width;
      kernel(y + r * width, held ? table + id * width : nullptr, position,
             static_cast<size_t>(width));
    }
  });
}

}  // namespace dettax
#endif
