// Rows of the table by token, plus those of the position table. Every number is one thread's.

#include "harness/device/checks.h"
#include "harness/device/cuda/launch.cuh"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

template <class T>
struct Lookup {
  T* y;
  const int32_t* tokens;
  const T* table;
  const T* positions;  // or null
  int64_t width, per_sample, vocabulary;
  Divider sample;
  TablePart part;
  TokenPlaces places;
};

template <class T, int kCount>
__global__ void look_up(Lookup<T> a, PackedRows<kCount> packs, uint32_t* faults) {
  for (int64_t i = grid_thread(); i < packs.count(); i += grid_threads()) {
    const auto [row, column] = packs.place(i);
    const int64_t id = a.tokens[row] - a.part.first_id;
    const bool held = id >= 0 && id < a.vocabulary;
    if (!held && !a.part.partial) report(faults, KernelFault::token);
    auto values = held ? load<kCount>(a.table + id * a.width + column) : zeros<kCount>();
    if (a.positions != nullptr) {
      const int64_t place = a.places.position(a.sample.rest(row), a.per_sample);
      const auto more = load<kCount>(a.positions + place * a.width + column);
      for (int k = 0; k < kCount; ++k) values.at[k] += more.at[k];
    }
    store(a.y + row * a.width + column, values);
  }
}

}  // namespace

void CudaKernels::embedding_forward(const EmbeddingForward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.table.columns();
  require_shapes(call);
  require(call.y.type == call.table.type &&
              (!call.position_table || call.position_table.type == call.table.type),
          "embedding_forward");
  const int64_t per_sample = rows / call.samples;
  by_type_and_width(
      call.y.type, width, {call.y.data, call.table.data, call.position_table.data},
      [&](auto tag, auto count) {
        using T = typename decltype(tag)::type;
        constexpr int kCount = decltype(count)::value;
        const Lookup<T> a{data_of<T>(call.y),
                          call.tokens.i32(),
                          data_of<T>(call.table),
                          data_of<T>(call.position_table),
                          width,
                          per_sample,
                          call.table.rows(),
                          Divider(per_sample),
                          call.part,
                          call.places};
        launch(place_.stream,
               {grid_for(rows * width, int64_t{kThreads} * kCount, place_.multiprocessors)},
               look_up<T, kCount>, a, packed_rows<kCount>(rows, width), fault_word());
      });
}

}  // namespace dettax
