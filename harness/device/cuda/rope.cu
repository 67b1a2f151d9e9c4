// Rotary position embedding, in place. Cosines and sines are made in double precision by a first kernel, once for all heads and
// samples of a call, and rounded to f32: there are few of them beside the numbers that they rotate.

#include <cmath>

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/workspace.h"

namespace dettax {
namespace {

struct AngleTable {
  float* cosines;  // [tokens, half]
  float* sines;
  int64_t tokens, half;
};

__global__ void fill_angles(AngleTable table, TokenPlaces places, double theta) {
  for (int64_t i = grid_thread(); i < table.tokens * table.half; i += grid_threads()) {
    const auto pair = static_cast<double>(i % table.half);
    const auto position = static_cast<double>(places.position(i / table.half, table.tokens));
    const double angle = position * pow(theta, -pair / static_cast<double>(table.half));
    table.cosines[i] = static_cast<float>(cos(angle));
    table.sines[i] = static_cast<float>(sin(angle));
  }
}

struct Heads {
  int64_t stride;   // of a row
  Divider rotated;  // query and key heads of a row
  Divider tokens;   // of a sample
  float direction;
};

template <class T, int kCount>
__global__ void rotate(T* qkv, AngleTable table, Heads heads, PackedRows<kCount> packs) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto place = packs.place(i);
    const int64_t pair = place.column;
    const int64_t head = heads.rotated.rest(place.row);
    const int64_t row = heads.rotated.quotient(place.row);
    const int64_t angle = heads.tokens.rest(row) * table.half + pair;
    const auto cosines = load<kCount>(table.cosines + angle);
    const auto sines = load<kCount>(table.sines + angle);
    T* at = qkv + row * heads.stride + head * 2 * table.half + pair;
    auto first = load<kCount>(at);
    auto second = load<kCount>(at + table.half);
    for (int k = 0; k < kCount; ++k) {
      const float a = first.at[k];
      const float b = second.at[k];
      const float s = sines.at[k] * heads.direction;
      first.at[k] = fmaf(-b, s, a * cosines.at[k]);
      second.at[k] = fmaf(a, s, b * cosines.at[k]);
    }
    store(at, first);
    store(at + table.half, second);
  }
}

}  // namespace

void CudaKernels::rope(const Rope& call) {
  const int64_t rows = call.qkv.rows();
  const int64_t all_heads = call.heads + 2 * call.key_value_heads;
  const int64_t stride = call.qkv.columns();
  const int64_t half = stride / all_heads / 2;
  require(stride == 2 * half * all_heads && call.samples > 0 && rows % call.samples == 0, "rope");
  const int64_t tokens = rows / call.samples;
  WorkspaceLayout layout;
  const size_t cosines = layout.add<float>(tokens * half);
  const size_t sines = layout.add<float>(tokens * half);
  std::byte* memory = workspace(layout.bytes());
  const AngleTable table{layout.at<float>(memory, cosines), layout.at<float>(memory, sines), tokens,
                         half};
  launch(place_.stream, {grid_for(tokens * half, kThreads, place_.multiprocessors)}, fill_angles,
         table, call.places, call.theta);
  const int64_t rotated = call.heads + call.key_value_heads;
  const Heads heads{stride, Divider(rotated), Divider(tokens), call.backward ? -1.0f : 1.0f};
  by_type_and_width(call.qkv.type, half, {call.qkv.data}, [&](auto tag, auto count) {
    using T = typename decltype(tag)::type;
    constexpr int kCount = decltype(count)::value;
    launch(place_.stream,
           {grid_for(rows * rotated * half, int64_t{kThreads} * kCount, place_.multiprocessors)},
           rotate<T, kCount>, data_of<T>(call.qkv), table, heads,
           packed_rows<kCount>(rows * rotated, half));
  });
}

}  // namespace dettax
