#include "exporters/html/nodes_section.h"

#include <algorithm>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "exporters/html/markup.h"
#include "harness/base/format.h"
#include "results/analysis/acceptance/node_map.h"

namespace dettax {
namespace {

HtmlCell ratio_cell(const std::optional<double>& ratio) {
  return ratio ? HtmlCell{fmt::format("{:.3f}", *ratio), ""} : HtmlCell{"\xe2\x80\x93", "dim"};
}

HtmlCell evidence_cell(const NodeMapRow& row) {
  if (row.claiming == 0) return {"\xe2\x80\x93", "dim"};
  if (row.reproduced == row.claiming) return {"equal", ""};
  return {fmt::format("equal in {} of {}", row.reproduced, row.claiming), "differ"};
}

}  // namespace

void write_nodes_section(std::ostream& out, const std::vector<const Record*>& records) {
  const std::vector<NodeMapRow> rows = node_map(records);
  if (rows.empty()) return;
  const auto odd = std::ranges::count_if(rows, &NodeMapRow::odd);
  out << "<section id=\"nodes\">\n<h2>Nodes</h2>\n";
  write_element(out, "p",
                fmt::format("{}, {} odd. The fast step and the deterministic ratio of each node "
                            "over the fleet's median, means over its cases; a dash was not "
                            "measured. Bits are those of arms that claim to reproduce them.",
                            format_things(static_cast<int64_t>(rows.size()), "node"), odd),
                "dim");
  HtmlTable table({"node", "", " cases", " fast step / fleet", " det / fast", " of that / fleet",
                   "bits", "verdict", "why"});
  for (const NodeMapRow& row : rows) {
    table.add({{row.node, row.odd ? "strong" : ""},
               {row.odd ? "odd" : "", "differ"},
               {std::to_string(row.cases), ""},
               ratio_cell(row.fast_ratio),
               ratio_cell(row.overhead_ratio),
               ratio_cell(row.odd_ratio),
               evidence_cell(row),
               {row.verdict, fmt::format("word {}", to_string(row.status))},
               {row.words, ""}});
  }
  table.write(out);
  out << "</section>\n";
}

}  // namespace dettax
