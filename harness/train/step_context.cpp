#include "harness/train/step_context.h"

#include <chrono>

namespace dettax {
namespace {

int64_t site_of(int64_t layer, Op op) {
  const LinearSite site = op == Op::qkv           ? LinearSite::qkv
                          : op == Op::projection  ? LinearSite::projection
                          : op == Op::mlp_up      ? LinearSite::up
                          : op == Op::expert_up   ? LinearSite::expert_up
                          : op == Op::expert_down ? LinearSite::expert_down
                                                  : LinearSite::down;
  return layer * kSitesPerLayer + static_cast<int64_t>(site);
}

}  // namespace

Tensor StepContext::fresh(const Tensor& tensor) {
  if (!knobs.memory_fill || !tensor) return tensor;
  begin(Op::memory_fill);
  const auto start = std::chrono::steady_clock::now();
  ops.fill_bytes(tensor, 0xFF);
  fills.time_ns += (std::chrono::steady_clock::now() - start).count();
  fills.count += 1;
  fills.bytes += tensor.bytes();
  return tensor;
}

void StepContext::round(const Tensor& activation) {
  const NumberFormat format = operands.recipe().activations;
  if (format == NumberFormat::f32 || !activation) return;
  Quantize call;
  call.y = call.x = activation;
  call.format = format;
  ops.quantize(call);
}

void StepContext::output(std::string_view name, const Tensor& activation) {
  round(activation);
  show(name, activation);
}

Tensor StepContext::operand(Operand part, Op op, const Tensor& values, SumOver sum) {
  return operands.make(part, site_of(layer, op), values, sum);
}

Tensor StepContext::head_operand() {
  return operands.make(Operand::weight, Operands::kHead, value(layout.head), SumOver::columns);
}

Tensor StepContext::reduced_gradient(int parameter) const {
  return reduction.scattered() ? parameters.owned_gradient(parameter)
                               : parameters.gradient(parameter);
}

void StepContext::show(std::string_view name, const Tensor& activation) {
  if (!probe.observed() || !activation) return;
  probe.output(name, activation,
               static_cast<uint64_t>(first_sample * (activation.count() / samples)));
}

void StepContext::show_gradient(int parameter) {
  if (!probe.observed() || parameter == kNoParameter) return;
  probe.output(layout.parameters[static_cast<size_t>(parameter)].name + ".grad",
               gradient(parameter), 0);
}

}  // namespace dettax
