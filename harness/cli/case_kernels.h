#pragma once

#include <functional>
#include <string>
#include <vector>

#include "results/run_folder.h"

namespace dettax {

// What `dettax run --kernels` does: kernel_bench in the shape of each case (its whole layers, on all cores, whatever its layout splits),
// and collective_bench over as many ranks as it has, if these are 2 or 4.

struct KernelRunSettings {
  std::function<void(const std::string&)> say;  // a line a program that is started
  std::function<bool()> interrupted;
};

// Error{config} if the programs do not lie where this build puts them: beside dettax, or in suites/ there.
void require_kernel_programs();

// Measures the kernels of every case that ran and has none yet, and writes its record anew; cases of one shape share a run. Ends early
// when interrupted. Error{infrastructure} if a program fails or answers with what is no result.
void measure_kernels(std::vector<Record>& records, RunFolder& folder,
                     const KernelRunSettings& settings);

// The argument of kernel_bench that stands for a case's shape, and that of collective_bench; empty if it has none.
std::string shape_argument(const Case& planned);
std::string collective_filter(const Case& planned);

}  // namespace dettax
