#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporters/text_layout.h"

namespace dettax {

// Small pieces of HTML. Text is escaped here and nowhere else.

struct HtmlCell {
  std::string text;
  std::string classes;  // of the stylesheet; empty for none
};

// A table with a header; columns whose header begins with a space hold numbers.
class HtmlTable {
 public:
  explicit HtmlTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<HtmlCell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  void write(std::ostream& out) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<HtmlCell>> rows_;
};

// The same rows as a terminal shows; the first of them is the header.
void write_grid(std::ostream& out, const Grid& grid);

// <tag class="classes">text</tag>
void write_element(std::ostream& out, std::string_view tag, std::string_view text,
                   std::string_view classes = "");
void write_items(std::ostream& out, const std::vector<std::string>& items,
                 std::string_view classes = "");

}  // namespace dettax
