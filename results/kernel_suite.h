#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// One kernel or collective alone, in the shape of a case. Rates are by bytes and operations that it must move and do at least.
struct KernelTime {
  std::string name;  // "layer_norm_backward/ordered"
  double seconds = 0;
  double bytes_per_second = 0, flops_per_second = 0;  // 0 where it is not counted
  double of_roofline_ratio = 0;  // of the rate that memory or the units allow, whichever is less
  double calls_per_step = 0;     // 0 if unknown
};

// What `dettax run --kernels` measured for a case.
struct KernelSuite {
  double peak_flops_per_second = 0, memory_bytes_per_second = 0;  // in the same run
  std::vector<KernelTime> kernels;
};

// Adds the entries of a Google Benchmark JSON of kernel_bench or collective_bench: suffixes of the library ("/real_time") and the part
// `shape` of names ("/case") are cut. Error{infrastructure} that begins with `name` for JSON of another form, and for an entry that failed.
void add_kernels(KernelSuite& suite, std::string_view json, const std::string& name,
                 std::string_view shape);

}  // namespace dettax
