#include <array>
#include <charconv>
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
    "NAME,samples,tokens,width,heads,layers,vocabulary,parameters,qkv_width,ffn_width,up_width";

// False if it is of another form.
bool parse_shape(std::string_view text, StepShape& shape) {
  std::array<int64_t, 10> numbers{};
  const size_t name = text.find(',');
  if (name == 0 || name == std::string_view::npos) return false;
  shape.model = std::string(text.substr(0, name));
  const char* at = text.data() + name;
  const char* const end = text.data() + text.size();
  for (int64_t& number : numbers) {
    if (at == end || *at != ',') return false;
    const auto [rest, fault] = std::from_chars(at + 1, end, number);
    if (fault != std::errc() || number < 1) return false;
    at = rest;
  }
  const auto& [samples, tokens, width, heads, layers, vocabulary, parameters, qkv, ffn, up] =
      numbers;
  shape = {shape.model, samples,    tokens, width, heads, layers,
           vocabulary,  parameters, qkv,    ffn,   up};
  return at == end && width % heads == 0;
}

int run(int argc, char** argv) {
  std::vector<StepShape> asked;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) {
      rest.push_back(argv[i]);
    } else if (!parse_shape(argument.substr(kFlag.size()), asked.emplace_back())) {
      std::fprintf(stderr, "kernel_bench: %s: is not %s, whole numbers from 1 on\n", argv[i],
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
