#include <charconv>
#include <cmath>
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
  if (variant == "generic") return "generic";
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

// <collective>/<algorithm>/<order>/ranks:.../bytes:... between threads of one machine. Of the algorithms the one that training takes unless
// told otherwise; others would be compared with an order of arrival that only this one has.
void add_collective(OpTable& table, const std::vector<std::string>& parts, double seconds) {
  const auto ranks = named_number(parts, "ranks");
  const auto bytes = named_number(parts, "bytes");
  if (parts.size() < 3 || !ranks || !bytes || parts[1] != "direct") return;
  const auto count = static_cast<int64_t>(*ranks);
  table.add_collective(parts[0], mode_of(parts[2]), {count, count}, *bytes, seconds);
}

// What a name's benchmark counts; 0 where it counts nothing of the kind.
struct Rates {
  double flops = 0, bytes = 0;
};

// <op>[/<variant>] with a rate: the work is rate times time. Where a shape stands between them, it says nothing that the rate does not.
void add_operation(OpTable& table, const std::vector<std::string>& parts, const Rates& rates,
                   double seconds) {
  const std::string& op = parts[0];
  const bool attention = op.starts_with("attention_");
  const bool element_wise = op == "add" || op == "copy" || op == "swiglu_forward";
  const bool varied = op == "embedding_backward" || op.ends_with("norm_backward") ||
                      op == "expert_unpermute" || op == "expert_linear_backward_weight";
  if (!attention && !element_wise && !varied) return;
  const double rate = attention ? rates.flops : rates.bytes;
  if (!(rate > 0)) return;
  const std::string& last = parts.back();
  const bool named = parts.size() > 1 && (last.starts_with("arrival") || last == "ordered" ||
                                          last == "invariant" || last == "generic");
  const double work = rate * seconds;
  table.add(element_wise ? "elementwise" : op, "fp32", named ? mode_of(last) : "fast",
            varied ? std::round(work) : work, seconds);
}

void add_reading(OpTable& table, const std::vector<std::string>& parts, const Rates& rates,
                 double seconds) {
  if (parts[0] == "linear") return add_linear(table, parts, seconds);
  if (is_collective(parts[0])) return add_collective(table, parts, seconds);
  add_operation(table, parts, rates, seconds);
}

}  // namespace

OpTable OpTable::of_records(const std::vector<Record>& records, const std::string& source) {
  OpTable table;
  for (const Record& record : records) {
    if (!record.kernels) continue;
    for (const KernelTime& kernel : record.kernels->kernels) {
      if (kernel.seconds > 0)
        add_reading(table, split(kernel.name, '/'),
                    {kernel.flops_per_second, kernel.bytes_per_second}, kernel.seconds);
    }
  }
  if (table.empty())
    throw Error(ErrorKind::config,
                source + ": holds no kernels measured alone; dettax run --kernels measures them");
  return table;
}

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
      add_reading(table, parts,
                  {run.value("flops_per_second", 0.0), run.value("bytes_per_second", 0.0)},
                  seconds);
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
