#pragma once

// What linear layers and experts share of products.h.

#include <string_view>

#include "harness/device/cuda/runtime/product_plans.h"
#include "harness/device/cuda/runtime/products.h"

namespace dettax {

// dw[N,K] from some rows of dy and x.
struct WeightGradient {
  std::string_view operation;
  Tensor dw, dy, x;
  NumberFormat operands;
  Order order;
  bool timed = false;
  PlanRows plan_rows = PlanRows::exact;

  ProductCall product(ProductRows rows, const Tensor& to, bool accumulate) const;
};

// Rows [first, first + count) of a matrix.
Tensor row_range(const Tensor& matrix, int64_t first, int64_t count);

// D = op(A) op(B) in row-major words: see products.cpp.
ProductCall forward_product(const Tensor& y, const Tensor& x, const Tensor& w);
ProductCall backward_input_product(const Tensor& dx, const Tensor& dy, const Tensor& w);

}  // namespace dettax
