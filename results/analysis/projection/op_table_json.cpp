#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "results/analysis/projection/op_table.h"

namespace dettax {
namespace {

// Order of summation by the variant's name in the kernel suites.
std::string mode_of(const std::string& variant) {
  if (variant.starts_with("arrival") || variant == "dynamic") return "fast";
  return variant == "invariant" ? "invariant" : "ordered";
}

double seconds_per(const std::string& unit) {
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  return unit == "ms" ? 1e-3 : 1.0;
}

// The number behind `key:` in one of the parts of a name.
std::optional<double> named_number(const std::vector<std::string>& parts, std::string_view key) {
  for (const std::string& part : parts) {
    if (!part.starts_with(key) || part.size() <= key.size() || part[key.size()] != ':') continue;
    double value = 0;
    const char* const end = part.data() + part.size();
    const auto [rest, fault] = std::from_chars(part.data() + key.size() + 1, end, value);
    if (fault == std::errc() && rest == end && value > 0) return value;
  }
  return std::nullopt;
}

// linear/<product>/<variant>/model:.../tokens:.../inputs:.../outputs:...
void add_linear(OpTable& table, const std::vector<std::string>& parts, double seconds) {
  const auto tokens = named_number(parts, "tokens");
  const auto inputs = named_number(parts, "inputs");
  const auto outputs = named_number(parts, "outputs");
  if (parts.size() < 3 || !tokens || !inputs || !outputs) return;
  const std::string op = parts[1] == "weight_gradient" ? "weight_product" : "gemm";
  const double work = op_work("gemm", *tokens, *inputs, *outputs);
  table.add(op, "fp32", mode_of(parts[2]), work, seconds);
  // The sums of the other two products have one order anyway: a static schedule serves the fast mode as well.
  if (parts[2] == "static") table.add(op, "fp32", "fast", work, seconds);
}

// <op>/<shape>[/<variant>] with a rate as a counter: the work is rate times time.
void add_operation(OpTable& table, const std::vector<std::string>& parts, const nlohmann::json& run,
                   double seconds) {
  const bool attention = parts[0].starts_with("attention_");
  const bool element_wise = parts[0] == "add" || parts[0] == "copy" || parts[0] == "swiglu_forward";
  const char* rate = attention ? "flops_per_second" : "bytes_per_second";
  if ((!attention && !element_wise) || !run.contains(rate)) return;
  const std::string mode = parts.size() > 2 ? mode_of(parts[2]) : "fast";
  const double work = run.at(rate).get<double>() * seconds;
  const std::string op = attention ? parts[0] : "elementwise";
  table.add(op, "fp32", mode, work, seconds);
}

}  // namespace

OpTable OpTable::read_benchmark_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::config, path + ": cannot be read");
  OpTable table;
  try {
    const nlohmann::json document = nlohmann::json::parse(file);
    for (const auto& run : document.at("benchmarks")) {
      if (run.value("run_type", "iteration") != "iteration" || run.contains("error_occurred"))
        continue;
      auto parts = split(run.at("name").get<std::string>(), '/');
      // What Google Benchmark adds about how time was taken.
      while (parts.back() == "real_time" || parts.back() == "manual_time" ||
             parts.back().starts_with("min_time:"))
        parts.pop_back();
      const double seconds =
          run.at("real_time").get<double>() * seconds_per(run.at("time_unit").get<std::string>());
      if (parts[0] == "linear") {
        add_linear(table, parts, seconds);
      } else {
        add_operation(table, parts, run, seconds);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is no JSON of Google Benchmark: {}", path, error.what()));
  }
  if (table.empty())
    throw Error(ErrorKind::config,
                path +
                    ": holds no benchmark of dettax's kernel suites; kernel_bench "
                    "--benchmark_out=FILE writes one");
  return table;
}

}  // namespace dettax
