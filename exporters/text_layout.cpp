#include "exporters/text_layout.h"

#include <algorithm>
#include <ostream>

namespace dettax {
namespace {

const char* ansi(Colour colour) {
  switch (colour) {
    case Colour::none:
      return "";
    case Colour::green:
      return "\x1b[32m";
    case Colour::yellow:
      return "\x1b[33m";
    case Colour::red:
      return "\x1b[31m";
    case Colour::dim:
      return "\x1b[2m";
    case Colour::bold:
      return "\x1b[1m";
  }
  return "";
}

}  // namespace

std::string paint(std::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::none || text.empty()) return std::string(text);
  return ansi(colour) + std::string(text) + "\x1b[0m";
}

void write_wrapped(std::ostream& out, std::string_view text, size_t indent, size_t width) {
  const std::string margin(indent, ' ');
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (column > 0 && column + 1 + word.size() > width) {
      out << "\n";
      column = 0;
    }
    out << (column == 0 ? margin : " ") << word;
    column += (column == 0 ? indent : 1) + word.size();
  }
  out << "\n";
}

void Grid::write(std::ostream& out, size_t indent, bool colour) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].text.size());
  }
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].text.size(), ' ');
      const std::string text = paint(row[i].text, row[i].colour, colour);
      line += (i == 0 ? "" : "  ") + (i < left_columns_ ? text + space : space + text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

}  // namespace dettax
