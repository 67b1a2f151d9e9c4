#pragma once

#include "suites/kernels/ops_bench.h"

namespace dettax {

// Shapes of the benchmarks where none is asked for.
const std::vector<StepShape>& default_shapes();

// The products of linear layers. Those of the default shapes stand beside a BLAS.
void add_linear_benchmarks();
void add_linear_benchmarks(const StepShape& shape);
void add_operation_benchmarks(const StepShape& shape);

}  // namespace dettax
