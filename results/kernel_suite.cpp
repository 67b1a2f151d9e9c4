#include "results/kernel_suite.h"

#include <array>
#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace dettax {
namespace {

using Json = nlohmann::json;

double member(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found == entry.end() ? 0 : found->get<double>();
}

// The library writes what a program adds to the context as text.
double context_number(const Json& context, const char* key) {
  const auto found = context.find(key);
  if (found == context.end()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double unit_seconds(const std::string& unit) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  for (const auto& [name, seconds] : kUnits) {
    if (unit == name) return seconds;
  }
  throw Error(ErrorKind::infrastructure, "time_unit " + unit + " is not known");
}

std::string plain_name(std::string name, std::string_view shape) {
  for (const std::string_view suffix : {"/real_time", "/manual_time"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  const std::string part = "/" + std::string(shape);
  if (const size_t at = name.find(part); !shape.empty() && at != std::string::npos)
    name.erase(at, part.size());
  return name;
}

KernelTime kernel_of(const Json& entry, std::string_view shape) {
  KernelTime kernel;
  kernel.name = plain_name(entry.at("name").get<std::string>(), shape);
  if (entry.contains("error_occurred") && entry["error_occurred"].get<bool>())
    throw Error(ErrorKind::infrastructure,
                kernel.name + ": " + entry.at("error_message").get<std::string>());
  kernel.seconds =
      entry.at("real_time").get<double>() * unit_seconds(entry.at("time_unit").get<std::string>());
  kernel.bytes_per_second = member(entry, "bytes_per_second");
  kernel.flops_per_second = member(entry, "flops_per_second");
  kernel.of_roofline_ratio = member(entry, "of_roofline_ratio");
  kernel.calls_per_step = member(entry, "calls");
  return kernel;
}

}  // namespace

void add_kernels(KernelSuite& suite, std::string_view json, const std::string& name,
                 std::string_view shape) {
  try {
    const Json parsed = Json::parse(json);
    const Json& context = parsed.at("context");
    if (const double peak = context_number(context, "peak_flops_per_second"); peak > 0)
      suite.peak_flops_per_second = peak;
    if (const double memory = context_number(context, "memory_bytes_per_second"); memory > 0)
      suite.memory_bytes_per_second = memory;
    for (const Json& entry : parsed.at("benchmarks")) {
      if (entry.at("run_type").get<std::string>() == "iteration")
        suite.kernels.push_back(kernel_of(entry, shape));
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::infrastructure,
                name + ": is no JSON of Google Benchmark: " + error.what());
  } catch (const Error& error) {
    throw Error(ErrorKind::infrastructure, name + ": " + error.what());
  }
}

}  // namespace dettax
