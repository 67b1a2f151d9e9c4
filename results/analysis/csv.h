#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// A comma-separated table with one header line, fields quoted where they hold a comma. Cells stay text; an empty cell is absent.
class CsvTable {
 public:
  // Throws Error{config} `file:line: ...` on a row with more or fewer cells than the header.
  static CsvTable read(const std::string& path);
  static CsvTable parse(const std::string& text, const std::string& name);

  size_t rows() const { return rows_.size(); }
  const std::string& name() const { return name_; }
  const std::string& text(size_t row, std::string_view column) const;
  // Nothing where the cell is empty; throws where it holds no number.
  std::optional<double> number(size_t row, std::string_view column) const;
  double need_number(size_t row, std::string_view column) const;
  int64_t integer_or(size_t row, std::string_view column, int64_t otherwise) const;
  // `file:line`, to tell a user where a value stands.
  std::string place(size_t row) const;

 private:
  size_t column_index(std::string_view column) const;

  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> lines_;
};

}  // namespace dettax
