#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "suites/kernels/benches.h"
#include "suites/kernels/roofline.h"

namespace dettax {
namespace {

constexpr std::string_view kFlag = "--shape=";
constexpr const char* kForm =
    "NAME,samples=N,tokens=N,width=N,heads=N,layers=N,vocabulary=N,parameters=N,...";

int run(int argc, char** argv) {
  std::vector<StepShape> asked;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) {
      rest.push_back(argv[i]);
    } else if (const auto shape = parse_step_shape(argument.substr(kFlag.size()))) {
      asked.push_back(*shape);
    } else {
      std::fprintf(stderr, "kernel_bench: %s: is no %s of suites/kernels/step_shape.h\n", argv[i],
                   kForm);
      return 2;
    }
  }
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;
  benchmark::AddCustomContext("peak_flops_per_second", std::to_string(roofline().flops_per_second));
  benchmark::AddCustomContext("memory_bytes_per_second",
                              std::to_string(roofline().bytes_per_second));
  if (asked.empty()) add_linear_benchmarks();
  for (const StepShape& shape : asked) add_linear_benchmarks(shape);
  for (const StepShape& shape : asked.empty() ? default_shapes() : asked)
    add_operation_benchmarks(shape);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) { return dettax::run(argc, argv); }
