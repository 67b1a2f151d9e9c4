// Gradient of the token and position tables: rows of dy added up by token id, and by position. Real
// text repeats few ids very often, so the rows of those are where the variants differ:
//   arrival, ordered, invariant  embedding_backward_arrival.cpp, embedding_backward_ordered.cpp
//   generic                      embedding_generic.cpp: the sort-and-accumulate of a framework's
//                                index_put, in the one order it has or in the invariant one

#include "harness/device/cpu/embedding_backward.h"

#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/embedding_generic.h"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

void generic(Team& team, Scratch& scratch, const EmbeddingGradient& g, Order order) {
  const RowKernel kernel = order == Order::invariant ? tree_of_rows() : chain_of_rows();
  if (order == Order::invariant)
    add_rows_as_index_put(team, scratch, g, kernel);
  else
    add_rows_as_index_put(team, scratch, g);
  if (g.position_table != nullptr) position_rows_in_order(team, g, kernel);
}

}  // namespace

void CpuOps::embedding_backward(const EmbeddingBackward& call) {
  const int64_t rows = call.tokens.count();
  const int64_t width = call.dtable.columns();
  require_shapes(call);
  const EmbeddingGradient g{call.dtable.f32(),
                            call.dposition_table ? call.dposition_table.f32() : nullptr,
                            call.dy.f32(),
                            call.tokens.i32(),
                            rows,
                            width,
                            call.samples,
                            call.places,
                            {call.part.first_id, call.dtable.rows(), call.part.partial}};
  if (call.generic) return generic(team_, scratch_, g, call.sum.order);
  switch (call.sum.order) {
    case Order::arrival:
      return embedding_backward_on_arrival(team_, g, call.sum.dynamic_schedule);
    case Order::ordered:
      return embedding_backward_in_order(team_, g, chain_of_rows());
    case Order::invariant:
      return embedding_backward_in_order(team_, g, tree_of_rows());
  }
}

}  // namespace dettax
