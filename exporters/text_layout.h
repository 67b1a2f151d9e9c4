#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

enum class Colour { none, green, yellow, red, dim, bold };

// Text in ANSI colour, or as it is.
std::string paint(std::string_view text, Colour colour, bool enabled);

// `text` broken at spaces to lines of `width` columns, every line behind `indent` spaces. A word that is too long stays whole.
void write_wrapped(std::ostream& out, std::string_view text, size_t indent, size_t width);

// Rows of cells in columns, the first two columns to the left, the others to the right. Colours do not count as width.
class Grid {
 public:
  explicit Grid(size_t left_columns) : left_columns_(left_columns) {}
  struct Cell {
    std::string text;
    Colour colour = Colour::none;
  };
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  void write(std::ostream& out, size_t indent, bool colour) const;
  size_t left_columns() const { return left_columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

 private:
  size_t left_columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace dettax
