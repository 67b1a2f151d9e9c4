// The experts' linear layers: a product for each, one after the other. Which rows an expert has is known on the device alone, so every
// call copies that to the host and waits: the host is never ahead of a layer of experts, and each of them has only its own rows to
// fill the device with. One kernel for all of them would spare both.

#include <vector>

#include <cuda_runtime_api.h>

#include "harness/device/checks.h"
#include "harness/device/cuda/runtime/check.h"
#include "harness/device/cuda/runtime/handles.h"
#include "harness/device/cuda/runtime/weight_gradient.h"

namespace dettax {
namespace {

// [E, S + 1], as ExpertPlan::segments; seen on the host.
class Segments {
 public:
  Segments(const int32_t* begins, const Tensor& segments, int64_t rows, const char* operation)
      : begins_(begins), samples_(segments.columns() - 1) {
    bool fit = begins[0] >= 0 && begins[segments.count() - 1] <= rows;
    for (int64_t i = 1; i < segments.count(); ++i) fit = fit && begins[i] >= begins[i - 1];
    require(fit, operation);
  }
  int64_t samples() const { return samples_; }
  int64_t begin(int64_t expert, int64_t sample) const {
    return begins_[expert * (samples_ + 1) + sample];
  }
  int64_t first(int64_t expert) const { return begin(expert, 0); }
  int64_t count(int64_t expert) const { return begin(expert, samples_) - first(expert); }

 private:
  const int32_t* begins_;
  int64_t samples_;
};

// x [rows, in], w [experts, out, in], y [rows, out].
void require_experts(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& segments,
                     const char* operation) {
  require(segments.columns() > 1 && segments.type == DType::i32 && x.rows() == y.rows() &&
              w.columns() == x.columns() && w.rows() == segments.rows() * y.columns(),
          operation);
}

bool types_fit(DType in, DType other, DType out) {
  return in == other && in != DType::i32 && (out == DType::f32 || out == in);
}

Tensor weights_of(const Tensor& w, int64_t expert, int64_t outputs) {
  return row_range(make_tensor(w.data, w.type, {w.rows(), w.columns()}), expert * outputs, outputs);
}

// Rows are others in every call, so there is nothing to time.
ProductCall of_expert(ProductCall call, const char* operation, NumberFormat operands, Order order) {
  call.operation = operation;
  call.product.operands = operands;
  call.order = order;
  call.plan_rows = order == Order::invariant ? PlanRows::any : PlanRows::rounded_up;
  return call;
}

}  // namespace

const int32_t* MatrixProducts::to_host(const Tensor& segments) {
  const auto bytes = static_cast<size_t>(segments.bytes());
  if (on_host_ == nullptr || on_host_->bytes() < bytes) {
    on_host_.reset();
    on_host_ = std::make_unique<PinnedMemory>(bytes);
  }
  require_success(cudaMemcpyAsync(on_host_->data(), segments.data, bytes, cudaMemcpyDeviceToHost,
                                  place_.stream),
                  "cudaMemcpyAsync");
  require_success(cudaStreamSynchronize(place_.stream), "cudaStreamSynchronize");
  return reinterpret_cast<const int32_t*>(on_host_->data());
}

void MatrixProducts::expert_linear_forward(const ExpertLinearForward& call) {
  constexpr const char* kName = "expert_linear_forward";
  require_experts(call.x, call.w, call.y, call.segments, kName);
  require(types_fit(call.x.type, call.w.type, call.y.type), kName);
  const int64_t experts = call.segments.rows();
  const Segments segments(to_host(call.segments), call.segments, call.x.rows(), kName);
  for (int64_t e = 0; e < experts; ++e) {
    if (segments.count(e) == 0) continue;
    const Tensor y = row_range(call.y, segments.first(e), segments.count(e));
    const Tensor x = row_range(call.x, segments.first(e), segments.count(e));
    const Tensor w = weights_of(call.w, e, call.y.columns());
    run(of_expert(forward_product(y, x, w), kName, call.operands, call.order));
  }
}

void MatrixProducts::expert_linear_backward_input(const ExpertLinearBackwardInput& call) {
  constexpr const char* kName = "expert_linear_backward_input";
  require_experts(call.dx, call.w, call.dy, call.segments, kName);
  require(types_fit(call.dy.type, call.w.type, call.dx.type), kName);
  const int64_t experts = call.segments.rows();
  const Segments segments(to_host(call.segments), call.segments, call.dx.rows(), kName);
  for (int64_t e = 0; e < experts; ++e) {
    if (segments.count(e) == 0) continue;
    const Tensor dx = row_range(call.dx, segments.first(e), segments.count(e));
    const Tensor dy = row_range(call.dy, segments.first(e), segments.count(e));
    const Tensor w = weights_of(call.w, e, call.dy.columns());
    run(of_expert(backward_input_product(dx, dy, w), kName, call.operands, call.order));
  }
}

void MatrixProducts::expert_linear_backward_weight(const ExpertLinearBackwardWeight& call) {
  constexpr const char* kName = "expert_linear_backward_weight";
  require_experts(call.x, call.dw, call.dy, call.segments, kName);
  require(types_fit(call.dy.type, call.x.type, call.dw.type), kName);
  const int64_t experts = call.segments.rows();
  const Segments segments(to_host(call.segments), call.segments, call.x.rows(), kName);
  std::vector<ProductRows> samples(static_cast<size_t>(segments.samples()));
  for (int64_t e = 0; e < experts; ++e) {
    const WeightGradient gradient{.operation = kName,
                                  .dw = weights_of(call.dw, e, call.dy.columns()),
                                  .dy = call.dy,
                                  .x = call.x,
                                  .operands = call.operands,
                                  .order = call.sum.order,
                                  .plan_rows = PlanRows::rounded_up};
    if (call.sum.order != Order::invariant) {
      add_rows(gradient, {segments.first(e), segments.count(e)}, gradient.dw, call.accumulate);
      continue;
    }
    for (int64_t s = 0; s < segments.samples(); ++s) {
      const int64_t begin = segments.begin(e, s);
      samples[static_cast<size_t>(s)] = {begin, segments.begin(e, s + 1) - begin};
    }
    add_samples(gradient, samples, call.accumulate);
  }
}

}  // namespace dettax
