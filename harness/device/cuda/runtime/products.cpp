// Row-major matrices as cuBLASLt reads them: one of [M,K] is column-major [K,M]. So
//   y[M,N] = x w^T   is  D[N,M] = op_T(w as [K,N]) (x as [K,M])
//   dx[M,K] = dy w   is  D[K,M] = (w as [K,N]) (dy as [N,M])
//   dw[N,K] = dy^T x is  D[K,N] = (x as [K,M]) op_T(dy as [N,M])

#include "harness/device/cuda/runtime/products.h"

#include <utility>
#include <vector>

#include "harness/device/checks.h"
#include "harness/device/cuda/runtime/handles.h"
#include "harness/device/cuda/runtime/weight_gradient.h"

namespace dettax {
namespace {

bool is_matrix(const Tensor& t, int64_t rows, int64_t columns, DType type) {
  return t && t.count() > 0 && t.rows() == rows && t.columns() == columns && t.type == type;
}
bool is_vector(const Tensor& t, int64_t count, DType type) {
  return t && t.count() == count && t.type == type;
}
// Of a product's matrices and its result.
bool types_fit(DType in, DType out) {
  return (in == DType::f32 || in == DType::bf16) && (out == DType::f32 || out == in);
}
// The library wants rows of what an epilogue with gelu keeps to be multiples of 8 numbers.
bool gelu_fits(int64_t width) { return width % 8 == 0; }

bool has_bias(Epilogue e) {
  return e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::bias_residual;
}
bool has_residual(Epilogue e) { return e == Epilogue::residual || e == Epilogue::bias_residual; }

bool may_time(bool dynamic_schedule, Order order) {
  return dynamic_schedule && order != Order::invariant;
}
// Gelu, its gradient and that of a bias. Fused with a pinned product they are as repeatable as that; but sums of a bias's gradient keep no
// borders between samples, and an epilogue may lack for some number of rows.
bool may_fuse(Order order) { return order != Order::invariant; }
PlanRows plan_rows_of(Order order) {
  return order == Order::invariant ? PlanRows::any : PlanRows::exact;
}

}  // namespace

Tensor row_range(const Tensor& matrix, int64_t first, int64_t count) {
  const int64_t width = matrix.columns();
  auto* data = static_cast<std::byte*>(matrix.data) +
               first * width * static_cast<int64_t>(size_of(matrix.type));
  return make_tensor(data, matrix.type, {count, width});
}

ProductCall forward_product(const Tensor& y, const Tensor& x, const Tensor& w) {
  ProductCall call;
  call.product = {.m = y.columns(),
                  .n = y.rows(),
                  .k = x.columns(),
                  .transpose_a = true,
                  .in = x.type,
                  .out = y.type};
  call.memory = {.a = w.data, .b = x.data, .d = y.data};
  return call;
}

ProductCall backward_input_product(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  ProductCall call;
  call.product = {
      .m = dx.columns(), .n = dx.rows(), .k = dy.columns(), .in = dy.type, .out = dx.type};
  call.memory = {.a = w.data, .b = dy.data, .d = dx.data};
  return call;
}

ProductCall WeightGradient::product(ProductRows rows, const Tensor& to, bool accumulate) const {
  ProductCall call;
  call.operation = operation;
  call.product = {.m = x.columns(),
                  .n = dy.columns(),
                  .k = rows.count,
                  .transpose_b = true,
                  .add_c = accumulate,
                  .in = x.type,
                  .out = to.type,
                  .operands = operands};
  call.memory = {.a = row_range(x, rows.first, rows.count).data,
                 .b = row_range(dy, rows.first, rows.count).data,
                 .c = accumulate ? to.data : nullptr,
                 .d = to.data};
  call.order = order;
  call.timed = timed;
  call.plan_rows = plan_rows;
  call.rows = &Matmul::k;
  return call;
}

MatrixProducts::MatrixProducts(const KernelPlace& place, CudaKernels& kernels,
                               std::function<Buffer(size_t)> allocate)
    : place_(place),
      kernels_(kernels),
      allocate_(std::move(allocate)),
      plans_(std::make_unique<ProductPlans>(place.stream, allocate_)) {}

MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::linear_forward(const LinearForward& call) {
  const int64_t rows = call.x.rows();
  const int64_t columns = call.w.rows();
  const Epilogue e = call.epilogue;
  require(
      is_matrix(call.x, rows, call.w.columns(), call.w.type) &&
          is_matrix(call.y, rows, columns, call.y.type) && types_fit(call.x.type, call.y.type) &&
          (!has_bias(e) || is_vector(call.bias, columns, call.y.type)) &&
          (!has_residual(e) || is_matrix(call.residual, rows, columns, call.y.type)) &&
          (e != Epilogue::bias_gelu || is_matrix(call.pre_activation, rows, columns, call.y.type)),
      "linear_forward");
  const bool gelu = e == Epilogue::bias_gelu;
  ProductCall product = forward_product(gelu ? call.pre_activation : call.y, call.x, call.w);
  product.operation = "linear_forward";
  product.product.operands = call.operands;
  product.order = call.order;
  product.timed = may_time(call.dynamic_schedule, call.order);
  product.plan_rows = plan_rows_of(call.order);
  if (has_residual(e)) {
    product.product.add_c = true;
    product.memory.c = call.residual.data;
  }
  if (!has_bias(e)) return run(product);
  if (gelu && forward_with_gelu(call, product)) return;
  product.product.epilogue = CUBLASLT_EPILOGUE_BIAS;
  product.memory.vector = call.bias.data;
  if (!plans_->run(product)) {
    product.product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    product.memory.vector = nullptr;
    run(product);
    kernels_.add_bias_residual({gelu ? call.pre_activation : call.y, call.bias, {}});
  }
  if (gelu) kernels_.gelu_forward({call.y, call.pre_activation});
}

bool MatrixProducts::forward_with_gelu(const LinearForward& call, const ProductCall& product) {
  if (!call.may_fuse_gelu || !may_fuse(call.order) || !gelu_fits(call.y.columns())) return false;
  ProductCall fused = product;
  fused.product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  fused.memory.vector = call.bias.data;
  fused.memory.auxiliary = call.pre_activation.data;
  fused.memory.d = call.y.data;
  return plans_->run(fused);
}

void MatrixProducts::linear_backward_input(const LinearBackwardInput& call) {
  const int64_t rows = call.dy.rows();
  const int64_t columns = call.w.columns();
  const Tensor& before = call.gelu_pre_activation;
  require(is_matrix(call.dy, rows, call.w.rows(), call.w.type) &&
              is_matrix(call.dx, rows, columns, call.dx.type) &&
              types_fit(call.dy.type, call.dx.type) &&
              (!before || is_matrix(before, rows, columns, call.dx.type)),
          "linear_backward_input");
  ProductCall product = backward_input_product(call.dx, call.dy, call.w);
  product.operation = "linear_backward_input";
  product.product.operands = call.operands;
  product.product.add_c = call.accumulate;
  product.memory.c = call.accumulate ? call.dx.data : nullptr;
  product.order = call.order;
  product.timed = may_time(call.dynamic_schedule, call.order);
  product.plan_rows = plan_rows_of(call.order);
  if (before && call.may_fuse_gelu && may_fuse(call.order) && gelu_fits(columns)) {
    ProductCall fused = product;
    fused.product.epilogue = CUBLASLT_EPILOGUE_DGELU;
    fused.memory.auxiliary = before.data;
    if (plans_->run(fused)) return;
  }
  run(product);
  if (before) kernels_.gelu_backward(call.dx, before);
}

void MatrixProducts::linear_backward_weight(const LinearBackwardWeight& call) {
  const int64_t rows = call.dy.rows();
  require(is_matrix(call.x, rows, call.x.columns(), call.dy.type) &&
              is_matrix(call.dy, rows, call.dy.columns(), call.dy.type) &&
              is_matrix(call.dw, call.dy.columns(), call.x.columns(), call.dw.type) &&
              types_fit(call.dy.type, call.dw.type) && call.samples > 0 &&
              rows % call.samples == 0 &&
              (!call.dbias || is_vector(call.dbias, call.dy.columns(), DType::f32)),
          "linear_backward_weight");
  const Order order = call.sum.order;
  const WeightGradient gradient{.operation = "linear_backward_weight",
                                .dw = call.dw,
                                .dy = call.dy,
                                .x = call.x,
                                .operands = call.operands,
                                .order = order,
                                .timed = may_time(call.sum.dynamic_schedule, order)};
  if (gradient_with_bias(call, gradient)) return;
  if (order == Order::invariant) {
    const int64_t of_sample = rows / call.samples;
    std::vector<ProductRows> samples;
    for (int64_t s = 0; s < call.samples; ++s) samples.push_back({s * of_sample, of_sample});
    add_samples(gradient, samples, call.accumulate);
  } else {
    add_rows(gradient, {0, rows}, call.dw, call.accumulate);
  }
  if (!call.dbias) return;
  kernels_.sum_columns({.sums = call.dbias,
                        .values = call.dy,
                        .accumulate = call.accumulate,
                        .samples = call.samples,
                        .sum = call.sum});
}

// The library writes the gradient of a bias, and never adds to it.
bool MatrixProducts::gradient_with_bias(const LinearBackwardWeight& call,
                                        const WeightGradient& gradient) {
  if (!call.dbias || !may_fuse(gradient.order) || call.dw.type != DType::f32) return false;
  const int64_t rows = call.dy.rows();
  ProductCall fused = gradient.product({0, rows}, call.dw, call.accumulate);
  Tensor written = call.dbias;
  if (call.accumulate) written.data = working_floats(call.dbias.count());
  fused.product.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  fused.memory.vector = written.data;
  if (!plans_->run(fused)) return false;
  if (call.accumulate) kernels_.add(call.dbias, written);
  return true;
}

void MatrixProducts::run(const ProductCall& call) {
  if (plans_->run(call)) return;
  throw Error(
      ErrorKind::unsupported,
      std::string(call.operation) + ": cuBLASLt has no algorithm for " + to_string(call.product));
}

float* MatrixProducts::working_floats(int64_t count) {
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  if (memory_.bytes() < bytes) {
    memory_ = Buffer();
    memory_ = allocate_(bytes);
  }
  return static_cast<float*>(memory_.data());
}

}  // namespace dettax
