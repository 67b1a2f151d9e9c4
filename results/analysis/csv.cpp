#include "results/analysis/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

CsvTable CsvTable::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file) throw Error(ErrorKind::config, path + ": cannot be read");
  return parse(text.str(), path);
}

CsvTable CsvTable::parse(const std::string& text, const std::string& name) {
  CsvTable table;
  table.name_ = name;
  size_t number = 0;
  for (std::string& line : split(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::vector<std::string> cells = cells_of(line);
    if (table.header_.empty()) {
      table.header_ = std::move(cells);
      continue;
    }
    if (cells.size() != table.header_.size()) {
      throw Error(ErrorKind::config, fmt::format("{}:{}: has {} cells, but the header names {}",
                                                 name, number, cells.size(), table.header_.size()));
    }
    table.rows_.push_back(std::move(cells));
    table.lines_.push_back(number);
  }
  if (table.header_.empty()) throw Error(ErrorKind::config, name + ": is empty");
  return table;
}

size_t CsvTable::column_index(std::string_view column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  if (found == header_.end()) {
    throw Error(ErrorKind::config, fmt::format("{}: has no column \"{}\"{}", name_, column,
                                               did_you_mean(column, header_)));
  }
  return static_cast<size_t>(found - header_.begin());
}

const std::string& CsvTable::text(size_t row, std::string_view column) const {
  return rows_.at(row)[column_index(column)];
}

std::optional<double> CsvTable::number(size_t row, std::string_view column) const {
  const std::string& cell = text(row, column);
  if (cell.empty()) return std::nullopt;
  double value = 0;
  const char* const end = cell.data() + cell.size();
  const auto [rest, fault] = std::from_chars(cell.data(), end, value);
  if (fault != std::errc() || rest != end || !std::isfinite(value)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: {}: \"{}\" is no number", place(row), column, cell));
  }
  return value;
}

double CsvTable::need_number(size_t row, std::string_view column) const {
  if (const auto value = number(row, column)) return *value;
  throw Error(ErrorKind::config, fmt::format("{}: {}: is missing", place(row), column));
}

int64_t CsvTable::integer_or(size_t row, std::string_view column, int64_t otherwise) const {
  const auto value = number(row, column);
  return value ? std::llround(*value) : otherwise;
}

std::string CsvTable::place(size_t row) const {
  return fmt::format("{}:{}", name_, lines_.at(row));
}

}  // namespace dettax
