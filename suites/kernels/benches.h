#pragma once

namespace dettax {

void add_linear_benchmarks();     // gemm_bench.cpp
void add_operation_benchmarks();  // ops_bench.cpp

}  // namespace dettax
