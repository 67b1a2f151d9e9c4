#include "harness/train/precision.h"

namespace dettax {
namespace {

PrecisionRecipe uniform(NumberFormat format) {
  PrecisionRecipe recipe;
  recipe.activations = recipe.operands = recipe.gradient_operands = format;
  return recipe;
}

PrecisionRecipe fp8(bool delayed) {
  PrecisionRecipe recipe;
  recipe.activations = NumberFormat::bf16;
  recipe.operands = NumberFormat::e4m3;
  recipe.gradient_operands = NumberFormat::e5m2;
  recipe.scales = ScaleGroup::tensor;
  recipe.delayed_scales = delayed;
  return recipe;
}

PrecisionRecipe blocks(NumberFormat format, int64_t block, NumberFormat scale_format) {
  PrecisionRecipe recipe;
  recipe.activations = NumberFormat::bf16;
  recipe.operands = recipe.gradient_operands = format;
  recipe.scales = ScaleGroup::along_rows;
  recipe.block = block;
  recipe.scale_format = scale_format;
  return recipe;
}

}  // namespace

PrecisionRecipe recipe_of(Precision precision) {
  PrecisionRecipe recipe;
  switch (precision) {
    case Precision::fp32:
      return recipe;
    case Precision::tf32:
      recipe.operands = recipe.gradient_operands = NumberFormat::tf32;
      return recipe;
    case Precision::bf16:
      return uniform(NumberFormat::bf16);
    case Precision::fp16:
      recipe = uniform(NumberFormat::f16);
      recipe.loss_scaling = true;
      return recipe;
    case Precision::fp8_cs:
      return fp8(false);
    case Precision::fp8_ds:
      return fp8(true);
    case Precision::fp8_mx:
      return blocks(NumberFormat::e4m3, 32, NumberFormat::e8m0);
    case Precision::nvfp4:
      return blocks(NumberFormat::e2m1, 16, NumberFormat::e4m3);
  }
  return recipe;
}

}  // namespace dettax
