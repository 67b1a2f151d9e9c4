// Tokens back from their experts: a token's rows are added up. Where the variants differ:
//   arrival             expert_unpermute_arrival.cpp
//   ordered, invariant  one owner a token adds its rows in order of choice
//   generic             weighted rows in a temporary, then the sort-and-accumulate of a framework's
//                       index_put

#include <algorithm>
#include <cstring>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/embedding_generic.h"
#include "harness/device/cpu/expert_rows.h"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

constexpr int64_t kGrain = 16;  // rows

void copy_residual(Team& team, const Unpermutation& u) {
  if (u.residual == u.y) return;
  team.parallel_for(u.tokens, kGrain, false, [&](int64_t begin, int64_t end, int) {
    const int64_t count = (end - begin) * u.width;
    if (u.residual == nullptr) {
      std::fill_n(u.y + begin * u.width, count, 0.0f);
    } else {
      std::copy_n(u.residual + begin * u.width, count, u.y + begin * u.width);
    }
  });
}

// Rows that exist; those behind them have no source.
int64_t rows_in_use(const Unpermutation& u) {
  const int32_t* end = u.sources + u.tokens * u.choices;
  return std::find_if(u.sources, end, [](int32_t source) { return source < 0; }) - u.sources;
}

void unpermute_as_index_put(Team& team, Scratch& gathered, Scratch& weighted,
                            const Unpermutation& u) {
  const int64_t rows = rows_in_use(u);
  copy_residual(team, u);
  if (rows == 0) return;
  float* products = weighted.floats(static_cast<size_t>(rows * (u.width + 1)));
  auto* tokens = reinterpret_cast<int32_t*>(products + rows * u.width);
  const auto scaled = row_kernels().scaled;
  team.parallel_for(rows, kGrain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      tokens[r] = static_cast<int32_t>(u.sources[r] / u.choices);
      scaled(products + r * u.width, u.rows + r * u.width, u.weight(u.sources[r]),
             static_cast<size_t>(u.width));
    }
  });
  // A token's rows are those of different experts, so that their order is that of the experts.
  EmbeddingGradient sum{};
  sum.table = u.y;
  sum.dy = products;
  sum.tokens = tokens;
  sum.rows = rows;
  sum.width = u.width;
  sum.samples = 1;
  sum.ids = {0, u.tokens, false};
  add_rows_as_index_put(team, gathered, sum);
}

}  // namespace

void unpermute_in_order(Team& team, const Unpermutation& u) {
  const auto combine = row_kernels().combine;
  team.parallel_for(u.tokens, kGrain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* residual = u.residual == nullptr ? nullptr : u.residual + t * u.width;
      combine(u.y + t * u.width, residual, u.chosen(t));
    }
  });
}

void CpuOps::permute_rows(const PermuteRows& call) {
  const int64_t width = call.x.columns();
  require(call.y.columns() == width && call.divisor > 0 && call.index.count() >= call.y.rows(),
          "permute_rows");
  const auto bytes = static_cast<size_t>(width) * sizeof(float);
  const int32_t* index = call.index.i32();
  const float* x = call.x.f32();
  float* y = call.y.f32();
  team_.parallel_for(call.y.rows(), kGrain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      if (index[r] >= 0) std::memcpy(y + r * width, x + index[r] / call.divisor * width, bytes);
    }
  });
}

void CpuOps::unpermute_rows(const UnpermuteRows& call) {
  const int64_t tokens = call.y.rows();
  require_shapes(call);
  const Unpermutation u{call.y.f32(),
                        call.rows.f32(),
                        call.weights ? call.weights.f32() : nullptr,
                        call.residual ? call.residual.f32() : nullptr,
                        call.plan.slots.i32(),
                        call.plan.sources.i32(),
                        tokens,
                        call.plan.slots.columns(),
                        call.y.columns()};
  if (call.generic) return unpermute_as_index_put(team_, scratch_, weighted_rows_, u);
  if (call.sum.order != Order::arrival) return unpermute_in_order(team_, u);
  unpermute_on_arrival(team_, u, call.sum.dynamic_schedule);
}

void CpuOps::unpermute_rows_backward(const UnpermuteRowsBackward& call) {
  const int64_t tokens = call.dy.rows();
  const int64_t width = call.dy.columns();
  require_shapes(call);
  const int64_t choices = call.plan.slots.columns();
  const int32_t* slots = call.plan.slots.i32();
  const float* weights = call.weights.f32();
  const float* rows = call.rows.f32();
  const float* dy = call.dy.f32();
  float* drows = call.drows.f32();
  float* dweights = call.dweights.f32();
  const auto kernel = row_kernels().backward;
  team_.parallel_for(tokens, kGrain, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * choices; i < end * choices; ++i) {
      const int64_t at = slots[i] * width;
      dweights[i] = slots[i] < 0 ? 0.0f
                                 : kernel(drows + at, dy + i / choices * width, rows + at,
                                          weights[i], static_cast<size_t>(width));
    }
  });
}

}  // namespace dettax
