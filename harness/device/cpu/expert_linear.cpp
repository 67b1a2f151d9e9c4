// The experts' linear layers, one after the other, each with the whole team: an expert's weights are read
// once and its rows are enough for all threads.

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/gemm.h"

namespace dettax {
namespace {

struct ExpertRows {
  int64_t first, count;
  const int32_t* sample_begins;
};
ExpertRows rows_of(const Tensor& segments, int64_t expert) {
  const int64_t samples = segments.columns() - 1;
  const int32_t* begins = segments.i32() + expert * (samples + 1);
  return {begins[0], begins[samples] - begins[0], begins};
}

// x [rows, in], w [experts, out, in], y [rows, out].
void require_shapes(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& segments,
                    const char* operation) {
  const int64_t experts = segments.rows();
  const bool fit = segments.columns() > 1 && x.rows() == y.rows() && w.columns() == x.columns() &&
                   w.rows() == experts * y.columns();
  require(fit, operation);
  const ExpertRows last = rows_of(segments, experts - 1);
  require(last.first + last.count <= x.rows(), operation);
}

const float* weights_of(const Tensor& w, int64_t expert, int64_t outputs) {
  return w.f32() + expert * outputs * w.columns();
}

}  // namespace

void CpuOps::expert_linear_forward(const ExpertLinearForward& call) {
  require_shapes(call.x, call.w, call.y, call.segments, "expert_linear_forward");
  const int64_t inputs = call.x.columns(), outputs = call.y.columns();
  for (int64_t e = 0; e < call.segments.rows(); ++e) {
    const ExpertRows rows = rows_of(call.segments, e);
    if (rows.count == 0) continue;
    gemm(team_, *gemm_,
         {.a = {call.x.f32() + rows.first * inputs, rows.count, inputs, 1},
          .b = {weights_of(call.w, e, outputs), outputs, inputs, 1},
          .steps = inputs,
          .c = call.y.f32() + rows.first * outputs,
          .c_stride = outputs,
          .finish = {},
          .dynamic = call.dynamic_schedule});
  }
}

void CpuOps::expert_linear_backward_input(const ExpertLinearBackwardInput& call) {
  require_shapes(call.dx, call.w, call.dy, call.segments, "expert_linear_backward_input");
  const int64_t inputs = call.dx.columns(), outputs = call.dy.columns();
  for (int64_t e = 0; e < call.segments.rows(); ++e) {
    const ExpertRows rows = rows_of(call.segments, e);
    if (rows.count == 0) continue;
    gemm(team_, *gemm_,
         {.a = {call.dy.f32() + rows.first * outputs, rows.count, outputs, 1},
          .b = {weights_of(call.w, e, outputs), inputs, 1, inputs},
          .steps = outputs,
          .c = call.dx.f32() + rows.first * inputs,
          .c_stride = inputs,
          .finish = {},
          .dynamic = call.dynamic_schedule});
  }
}

void CpuOps::expert_linear_backward_weight(const ExpertLinearBackwardWeight& call) {
  require_shapes(call.x, call.dw, call.dy, call.segments, "expert_linear_backward_weight");
  const int64_t inputs = call.x.columns(), outputs = call.dy.columns();
  for (int64_t e = 0; e < call.segments.rows(); ++e) {
    const ExpertRows rows = rows_of(call.segments, e);
    const int64_t at = e * outputs * inputs;
    if (rows.count == 0) {
      if (!call.accumulate)
        fill_bytes(make_tensor(call.dw.f32() + at, DType::f32, {outputs * inputs}), 0);
      continue;
    }
    weight_gradient(team_, *gemm_,
                    {.a = {call.dy.f32() + rows.first * outputs, outputs, 1, outputs},
                     .b = {call.x.f32() + rows.first * inputs, inputs, 1, inputs},
                     .tokens = rows.count,
                     .samples = call.segments.columns() - 1,
                     .sample_begins = rows.sample_begins,
                     .c = call.dw.f32() + at,
                     .c_stride = inputs,
                     .line_sums = nullptr,
                     .accumulate = call.accumulate,
                     .order = call.sum.order,
                     .dynamic = call.sum.dynamic_schedule});
  }
}

}  // namespace dettax
