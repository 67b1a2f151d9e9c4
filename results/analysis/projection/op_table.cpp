#include "results/analysis/projection/op_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "results/analysis/csv.h"

namespace dettax {
namespace {

std::string key_of(std::string_view op, std::string_view precision, std::string_view mode) {
  return fmt::format("{}/{}/{}", op, precision, mode);
}

}  // namespace

double op_work(std::string_view op, double m, double n, double k) {
  if (op == "attention_backward") return 5 * m * n * k;
  if (op == "gemm" || op == "weight_product" || op == "attention_forward") return 2 * m * n * k;
  return m * n * k;
}

OpTable OpTable::read(const std::string& path) {
  return path.ends_with(".json") ? read_benchmark_json(path) : read_csv(path);
}

OpTable OpTable::read_csv(const std::string& path) {
  const CsvTable csv = CsvTable::read(path);
  OpTable table;
  for (size_t row = 0; row < csv.rows(); ++row) {
    const std::string& op = csv.text(row, "op");
    const auto positive = [&](const char* column) {
      const double value = csv.need_number(row, column);
      if (value > 0) return value;
      throw Error(ErrorKind::config,
                  fmt::format("{}: {}: must be above 0", csv.place(row), column));
    };
    const double work = op_work(op, positive("m"), positive("n"), positive("k"));
    table.add(op, csv.text(row, "precision"), csv.text(row, "mode"), work, positive("seconds"));
  }
  if (table.empty()) throw Error(ErrorKind::config, path + ": holds no readings");
  return table;
}

void OpTable::add(const std::string& op, const std::string& precision, const std::string& mode,
                  double work, double seconds) {
  const auto [place, fresh] = readings_[key_of(op, precision, mode)].try_emplace(work, seconds);
  if (!fresh) place->second = std::min(place->second, seconds);
}

size_t OpTable::size() const {
  size_t total = 0;
  for (const auto& [key, points] : readings_) total += points.size();
  return total;
}

std::optional<double> OpTable::seconds(std::string_view op, std::string_view precision,
                                       std::string_view mode, double work) const {
  const auto found = readings_.find(key_of(op, precision, mode));
  if (found == readings_.end()) return std::nullopt;
  const auto& points = found->second;
  const auto above = points.lower_bound(work);
  if (above == points.begin()) return above->second * work / above->first;
  const auto below = std::prev(above);
  if (above == points.end()) return below->second * work / below->first;
  const double share = std::log(work / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

std::vector<std::string> OpTable::missing(const std::vector<std::string>& ops,
                                          std::string_view precision, std::string_view mode) const {
  std::vector<std::string> absent;
  for (const std::string& op : ops) {
    if (!readings_.contains(key_of(op, precision, mode))) absent.push_back(op);
  }
  return absent;
}

}  // namespace dettax
