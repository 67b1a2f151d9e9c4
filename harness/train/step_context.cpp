#include "harness/train/step_context.h"

namespace dettax {

const Tensor& StepContext::fresh(const Tensor& tensor) {
  if (!knobs.memory_fill || !tensor) return tensor;
  begin(Op::memory_fill);
  ops.fill_bytes(tensor, 0xFF);
  return tensor;
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
