#include <string>

#include "harness/base/error.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/gemm.h"

namespace dettax {
namespace {

[[noreturn]] void refuse(const char* operation, const std::string& what) {
  throw Error(ErrorKind::internal, std::string(operation) + ": " + what);
}

// 0 also where a row has no columns.
int64_t rows_of(const Tensor& t) { return t.count() == 0 ? 0 : t.rows(); }

void require_matrix(const Tensor& t, int64_t rows, int64_t columns, const char* operation,
                    const char* name) {
  if (t && t.count() > 0 && t.rows() == rows && t.columns() == columns) return;
  const auto shape = [](int64_t r, int64_t c) {
    return "[" + std::to_string(r) + ", " + std::to_string(c) + "]";
  };
  refuse(operation, std::string(name) + " is " +
                        (t ? shape(rows_of(t), t.columns()) : std::string("missing")) +
                        ", it must be " + shape(rows, columns) + " and not empty");
}

void require_vector(const Tensor& t, int64_t count, const char* operation, const char* name) {
  if (t && t.count() == count) return;
  refuse(operation, std::string(name) + " must have " + std::to_string(count) + " elements");
}

// Lines along the rows of a row-major matrix, steps along its columns; and the other way round.
GemmOperand row_lines(const Tensor& t) { return {t.f32(), t.rows(), t.columns(), 1}; }
GemmOperand column_lines(const Tensor& t) { return {t.f32(), t.columns(), 1, t.columns()}; }

GemmFinish forward_finish(const LinearForward& call, int64_t rows, int64_t columns) {
  const char* name = "linear_forward";
  using Kind = GemmFinish::Kind;
  GemmFinish finish;
  const Epilogue e = call.epilogue;
  if (e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::bias_residual) {
    require_vector(call.bias, columns, name, "bias");
    finish.bias = call.bias.f32();
  }
  if (e == Epilogue::residual || e == Epilogue::bias_residual) {
    require_matrix(call.residual, rows, columns, name, "residual");
    finish.residual = call.residual.f32();
  }
  if (e == Epilogue::bias_gelu) {
    require_matrix(call.pre_activation, rows, columns, name, "pre_activation");
    finish.pre_activation = call.pre_activation.f32();
  }
  finish.kind = e == Epilogue::bias            ? Kind::bias
                : e == Epilogue::bias_gelu     ? Kind::bias_gelu
                : e == Epilogue::bias_residual ? Kind::bias_residual
                : e == Epilogue::residual      ? Kind::residual
                                               : Kind::none;
  return finish;
}

}  // namespace

CpuOps::CpuOps(Team& team) : team_(team), gemm_(std::make_unique<GemmState>(team.size())) {}
CpuOps::~CpuOps() = default;

size_t CpuOps::scratch_bytes() const {
  return gemm_->bytes() + scratch_.bytes() + weighted_rows_.bytes();
}

void CpuOps::linear_forward(const LinearForward& call) {
  const char* name = "linear_forward";
  const int64_t rows = rows_of(call.x), steps = call.x.columns(), columns = rows_of(call.w);
  require_matrix(call.x, rows, steps, name, "x");
  require_matrix(call.w, columns, steps, name, "w");
  require_matrix(call.y, rows, columns, name, "y");
  gemm(team_, *gemm_,
       {.a = row_lines(call.x),
        .b = row_lines(call.w),
        .steps = steps,
        .c = call.y.f32(),
        .c_stride = columns,
        .finish = forward_finish(call, rows, columns),
        .dynamic = call.dynamic_schedule});
}

void CpuOps::linear_backward_input(const LinearBackwardInput& call) {
  const char* name = "linear_backward_input";
  using Kind = GemmFinish::Kind;
  const int64_t rows = rows_of(call.dy), steps = call.dy.columns(), columns = call.w.columns();
  require_matrix(call.dy, rows, steps, name, "dy");
  require_matrix(call.w, steps, columns, name, "w");
  require_matrix(call.dx, rows, columns, name, "dx");
  GemmFinish finish;
  if (call.accumulate) {
    finish.kind = Kind::residual;
    finish.residual = call.dx.f32();
  }
  if (call.gelu_pre_activation) {
    require_matrix(call.gelu_pre_activation, rows, columns, name, "gelu_pre_activation");
    finish.kind = call.accumulate ? Kind::residual_gelu_derivative : Kind::gelu_derivative;
    finish.pre_activation = call.gelu_pre_activation.f32();
  }
  gemm(team_, *gemm_,
       {.a = row_lines(call.dy),
        .b = column_lines(call.w),
        .steps = steps,
        .c = call.dx.f32(),
        .c_stride = columns,
        .finish = finish,
        .dynamic = call.dynamic_schedule});
}

void CpuOps::linear_backward_weight(const LinearBackwardWeight& call) {
  const char* name = "linear_backward_weight";
  const int64_t tokens = rows_of(call.dy), rows = call.dy.columns(), columns = call.x.columns();
  require_matrix(call.dy, tokens, rows, name, "dy");
  require_matrix(call.x, tokens, columns, name, "x");
  require_matrix(call.dw, rows, columns, name, "dw");
  if (call.samples < 1 || tokens % call.samples != 0) {
    refuse(name, std::to_string(tokens) + " rows are no whole number of rows for each of " +
                     std::to_string(call.samples) + " samples");
  }
  if (call.dbias) require_vector(call.dbias, rows, name, "dbias");
  weight_gradient(team_, *gemm_,
                  {.a = column_lines(call.dy),
                   .b = column_lines(call.x),
                   .tokens = tokens,
                   .samples = call.samples,
                   .c = call.dw.f32(),
                   .c_stride = columns,
                   .line_sums = call.dbias ? call.dbias.f32() : nullptr,
                   .accumulate = call.accumulate,
                   .order = call.sum.order,
                   .dynamic = call.sum.dynamic_schedule});
}

}  // namespace dettax
