#pragma once

#include <cstdint>
#include <optional>

#include "results/analysis/projection/determinism_cost.h"
#include "results/analysis/projection/hardware.h"
#include "results/analysis/projection/op_table.h"
#include "results/analysis/projection/training_plan.h"

namespace dettax {

// Everything a step's cost depends on. What it refers to outlives it.
struct Situation {
  const Hardware& machine;
  const TrainingPlan& plan;
  const DeterminismCost& determinism;
  const OpTable* table = nullptr;  // measured times, used where they have the operation
};

// Time of one operation on one device: measured where the table has it, else a roofline with the machine's efficiencies.
class OpCost {
 public:
  explicit OpCost(const Situation& situation);

  // A product of (m x k) by (k x n) in the plan's precision; `narrow` false: in 16 bits whatever the plan says.
  double product(double m, double n, double k, bool narrow = true) const;
  // The product that gives a weight's gradient.
  double weight_product(double m, double n, double k) const;
  // `count` products at once, of these sizes each.
  double batched_product(double count, double m, double n, double k) const;
  // `count` products of these sizes each in one launch, with a weight of their own each, in the plan's precision.
  double grouped_product(double count, double m, double n, double k) const;
  double attention_forward(double tokens, double length, double width) const;
  double attention_backward(double tokens, double length, double width) const;
  // A pass that would move this much through memory if elements had 16 bits.
  double pass(double bytes_of_16_bits) const;
  // One that moves so many bytes.
  double move(double bytes) const;
  // What a narrow product's operand costs to convert, twice: as it is and transposed.
  double conversion(double elements) const;
  // Filling the buffer of an output before it is written.
  double fill(double bytes_of_16_bits) const;

 private:
  // Measured in this order, else in the fast one times `factor`.
  std::optional<double> measured(const char* op, Order order, double work, double factor) const;
  double roofline(double m, double n, double k, bool narrow) const;
  double flash(double flops, double ratio) const;

  const Hardware& machine_;
  const Situation& situation_;
  Precision precision_;
  bool narrow_;
  double peak_, ratio_;
};

bool is_narrow(Precision precision);

}  // namespace dettax
