#pragma once

#include <string_view>
#include <vector>

#include "harness/comm/request.h"
#include "harness/train/step_context.h"

namespace dettax {

// Layers cut over the ranks of mesh.tensor(). A column-parallel layer (qkv, mlp up, head) has some of the outputs, and so gives a part
// of its input's gradient; a row-parallel one (projection, mlp down) has some of the inputs, and so gives a part of its output, as
// does the cut token table. Parts are added over ranks. The residual stream between is whole on every rank or, under sequence
// parallelism, cut by rows: then inputs are gathered and sums scattered. With one rank none of these does anything.

bool tensor_parallel(const StepContext& c);
// Whether this rank keeps only its rows of the residual stream.
bool sequence_parallel(const StepContext& c);

// Rows of a micro-batch that this rank keeps of the residual stream, in c.segments ranges of equal length.
struct RowRange {
  int64_t here = 0, whole = 0, count = 0;  // first row here, first row of the micro-batch
};
RowRange own_rows(const StepContext& c, int64_t segment);
Tensor rows_of(const Tensor& t, int64_t first, int64_t count);

// Communication over tensor ranks that goes on behind the caller where the overlap knob is on. Its result is there after finish().
struct RowExchange {
  Op op = Op::tensor_all_reduce;
  std::string_view name;
  Tensor result;
  std::vector<Request> requests;
};
const Tensor& finish(StepContext& c, RowExchange& exchange);

// All rows of a stream of which `own` has this rank's.
RowExchange start_gathering(StepContext& c, std::string_view name, const Tensor& own);
Tensor gather_rows(StepContext& c, std::string_view name, const Tensor& own);

// Where this rank's part of what is to be `own` after the sum has to be written: all rows of it. The second is for gradients, the
// first may be in use then.
Tensor partial_output(const StepContext& c, const Tensor& own);
Tensor partial_gradient(const StepContext& c, const Tensor& own);
RowExchange start_adding(StepContext& c, std::string_view name, const Tensor& partial,
                         const Tensor& own);
void add_partials(StepContext& c, std::string_view name, const Tensor& partial, const Tensor& own);

}  // namespace dettax
