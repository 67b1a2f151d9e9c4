#include "results/analysis/projection/op_cost.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

double product_ratio(const Efficiency& efficiency, Precision precision) {
  if (precision == Precision::nvfp4) return efficiency.fp4_gemm_ratio;
  return is_narrow(precision) ? efficiency.fp8_gemm_ratio : efficiency.gemm_ratio;
}

}  // namespace

bool is_narrow(Precision precision) {
  return precision != Precision::fp32 && precision != Precision::tf32 &&
         precision != Precision::bf16 && precision != Precision::fp16;
}

OpCost::OpCost(const Situation& situation)
    : machine_(situation.machine),
      situation_(situation),
      precision_(situation.plan.precision),
      narrow_(is_narrow(precision_)),
      peak_(machine_.peak_flops(precision_)),
      ratio_(product_ratio(machine_.efficiency, precision_)) {
  if (peak_ > 0) return;
  throw Error(ErrorKind::config, fmt::format("cluster {}: hardware.peak_flops has nothing for {}",
                                             machine_.name, to_string(precision_)));
}

std::optional<double> OpCost::measured(const char* op, Order order, double work,
                                       double factor) const {
  if (situation_.table == nullptr) return std::nullopt;
  const OpTable& table = *situation_.table;
  const char* precision = to_string(precision_);
  // Without a reading of the fast variant its own would be compared with a formula.
  const auto fast = table.seconds(op, precision, "fast", work);
  if (!fast) return std::nullopt;
  if (const auto own = table.seconds(op, precision, order_word(order), work)) return own;
  return *fast * factor;
}

double OpCost::roofline(double m, double n, double k, bool narrow) const {
  const double flops = 2 * m * n * k;
  const bool wide = narrow_ && !narrow;
  const double peak = wide ? machine_.bf16_flops : peak_;
  const double ratio = wide ? machine_.efficiency.gemm_ratio : ratio_;
  const double compute = flops / (peak * ratio) + machine_.efficiency.gemm_half_seconds / ratio;
  const double bytes = element_bytes(precision_) * (m * k + k * n + m * n);
  const double memory =
      bytes / (machine_.memory_bytes_per_second * machine_.efficiency.memory_ratio);
  return std::max(compute, memory) + machine_.efficiency.kernel_seconds;
}

double OpCost::product(double m, double n, double k, bool narrow) const {
  if (const auto read = measured("gemm", situation_.determinism.gemm_order, 2 * m * n * k, 1))
    return *read;
  return roofline(m, n, k, narrow);
}

double OpCost::weight_product(double m, double n, double k) const {
  const DeterminismCost& d = situation_.determinism;
  const double factor = d.weight_product_ratio;
  if (const auto read = measured("weight_product", d.gemm_order, 2 * m * n * k, factor))
    return *read;
  return product(m, n, k) * factor;
}

double OpCost::batched_product(double count, double m, double n, double k) const {
  const double flops = 2 * count * m * n * k;
  const double compute = flops / (machine_.bf16_flops * machine_.efficiency.gemm_ratio) +
                         machine_.efficiency.gemm_half_seconds / machine_.efficiency.gemm_ratio;
  const double bytes = 2 * count * (m * k + k * n + m * n);
  const double memory =
      bytes / (machine_.memory_bytes_per_second * machine_.efficiency.memory_ratio);
  return std::max(compute, memory) + machine_.efficiency.kernel_seconds;
}

double OpCost::grouped_product(double count, double m, double n, double k) const {
  const double compute =
      2 * count * m * n * k / (peak_ * ratio_ * machine_.efficiency.expert_ratio) +
      machine_.efficiency.gemm_half_seconds / ratio_;
  const double bytes = element_bytes(precision_) * count * (m * k + k * n + m * n);
  const double memory =
      bytes / (machine_.memory_bytes_per_second * machine_.efficiency.memory_ratio);
  return std::max(compute, memory) + machine_.efficiency.kernel_seconds;
}

// Attention stays in 16 bits under narrower linear layers.
double OpCost::flash(double flops, double ratio) const {
  const double peak = narrow_ ? machine_.bf16_flops : peak_;
  return flops / (peak * ratio) + 2 * machine_.efficiency.kernel_seconds;
}

double OpCost::attention_forward(double tokens, double length, double width) const {
  const double flops = op_work("attention_forward", tokens, length, width);
  if (const auto read = measured("attention_forward", Order::arrival, flops, 1)) return *read;
  return flash(flops, machine_.efficiency.attention_forward_ratio);
}

double OpCost::attention_backward(double tokens, double length, double width) const {
  const DeterminismCost& d = situation_.determinism;
  const double flops = op_work("attention_backward", tokens, length, width);
  const double factor = d.attention_backward_ratio;
  if (const auto read = measured("attention_backward", d.attention_order, flops, factor))
    return *read;
  return flash(flops, machine_.efficiency.attention_backward_ratio) * factor;
}

double OpCost::pass(double bytes_of_16_bits) const {
  return move(bytes_of_16_bits * element_bytes(precision_) / 2);
}

double OpCost::move(double bytes) const {
  if (const auto read = measured("elementwise", Order::arrival, bytes, 1)) return *read;
  const Efficiency& e = machine_.efficiency;
  return bytes * e.memory_passes_ratio / (machine_.memory_bytes_per_second * e.memory_ratio) +
         e.kernel_seconds;
}

double OpCost::conversion(double elements) const { return narrow_ ? pass(elements * 4) : 0; }

double OpCost::fill(double bytes_of_16_bits) const {
  if (!situation_.determinism.memory_fill) return 0;
  const double bytes = bytes_of_16_bits * element_bytes(precision_) / 2;
  const double bandwidth = machine_.memory_bytes_per_second * machine_.efficiency.memory_ratio;
  return situation_.determinism.fill_seconds + bytes / bandwidth;
}

}  // namespace dettax
