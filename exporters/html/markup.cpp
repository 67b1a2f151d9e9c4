#include "exporters/html/markup.h"

#include <ostream>

#include "exporters/escape.h"

namespace dettax {
namespace {

bool holds_numbers(const std::string& name) { return name.starts_with(' '); }

const char* class_of(Colour colour) {
  switch (colour) {
    case Colour::red:
      return "differ";
    case Colour::yellow:
      return "warning";
    case Colour::dim:
      return "dim";
    case Colour::bold:
      return "strong";
    default:
      return "";
  }
}

}  // namespace

void write_grid(std::ostream& out, const Grid& grid) {
  if (grid.empty()) return;
  std::vector<std::string> header;
  for (const Grid::Cell& cell : grid.rows().front())
    header.push_back((header.size() < grid.left_columns() ? "" : " ") + cell.text);
  HtmlTable table(std::move(header));
  for (size_t i = 1; i < grid.rows().size(); ++i) {
    std::vector<HtmlCell> row;
    for (const Grid::Cell& cell : grid.rows()[i]) row.push_back({cell.text, class_of(cell.colour)});
    table.add(std::move(row));
  }
  table.write(out);
}

void write_element(std::ostream& out, std::string_view tag, std::string_view text,
                   std::string_view classes) {
  out << '<' << tag;
  if (!classes.empty()) out << " class=\"" << classes << '"';
  out << '>' << html_text(text) << "</" << tag << ">\n";
}

void write_items(std::ostream& out, const std::vector<std::string>& items,
                 std::string_view classes) {
  if (items.empty()) return;
  out << "<ul>\n";
  for (const std::string& item : items) write_element(out, "li", item, classes);
  out << "</ul>\n";
}

void HtmlTable::write(std::ostream& out) const {
  out << "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& name : header_) {
    out << (holds_numbers(name) ? "<th class=\"number\">" : "<th>")
        << html_text(std::string_view(name).substr(holds_numbers(name) ? 1 : 0)) << "</th>";
  }
  out << "</tr>\n";
  for (const auto& row : rows_) {
    out << "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      std::string classes = row[i].classes;
      if (i < header_.size() && holds_numbers(header_[i]))
        classes += classes.empty() ? "number" : " number";
      out << "<td";
      if (!classes.empty()) out << " class=\"" << classes << '"';
      out << '>' << html_text(row[i].text) << "</td>";
    }
    out << "</tr>\n";
  }
  out << "</table></div>\n";
}

}  // namespace dettax
