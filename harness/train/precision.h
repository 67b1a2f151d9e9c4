#pragma once

#include "harness/device/ops.h"
#include "harness/plan/case.h"

namespace dettax {

// How a training step is computed in a precision. Weights have f32 masters everywhere, products are summed in f32, weight gradients
// are f32 and reduced in f32; norm statistics, log-sum-exp, losses and the optimizer are f32.
struct PrecisionRecipe {
  NumberFormat activations = NumberFormat::f32;  // what operations hand on, forward and backward
  // What the matrix products of the layers read: x and the weight, and the gradient of the output.
  NumberFormat operands = NumberFormat::f32;
  NumberFormat gradient_operands = NumberFormat::f32;
  ScaleGroup scales = ScaleGroup::none;  // tensor, or in blocks along the sum
  int64_t block = 0;
  NumberFormat scale_format = NumberFormat::e8m0;
  bool delayed_scales = false;  // from the largest magnitudes of earlier steps
  bool loss_scaling = false;

  bool narrow() const { return operands != NumberFormat::f32; }
};

// fp32    nothing is rounded
// tf32    operands rounded to tf32
// bf16, fp16   activations and operands; fp16 with dynamic loss scaling
// fp8_cs  activations bf16; operands e4m3, gradients e5m2, each with a scale from its own largest magnitude
// fp8_ds  the same with scales from the largest magnitude of the last 16 steps
// fp8_mx  activations bf16; operands and gradients e4m3 in blocks of 32 (OCP MX)
// nvfp4   activations bf16; operands and gradients e2m1 in blocks of 16 with e4m3 scales
// The head's product stays in the activations' format, as trainers keep it; in tf32 that is f32, and a device that rounds operands by
// itself does so for the head as well, as a trainer's one switch for all products of f32 does. Bias gradients are summed from the
// gradient as the weight gradient's product reads it.
PrecisionRecipe recipe_of(Precision precision);

}  // namespace dettax
