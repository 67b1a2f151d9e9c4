#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "exporters/words.h"

namespace dettax {

void write_comparison(std::ostream& out, const Comparison& comparison, const TableStyle& style) {
  const ExitCode code = static_cast<ExitCode>(comparison.exit_code);
  if (!comparison.provenance_differences.empty()) {
    out << paint(comparison.rows.empty()
                     ? "not compared, the runs were not made under the same conditions:"
                     : "compared although the runs were not made under the same conditions:",
                 Colour::red, style.colour)
        << "\n";
    for (const std::string& difference : comparison.provenance_differences)
      write_wrapped(out, difference, kIndent, columns(style));
    out << "\n";
  }
  std::vector<const ComparisonRow*> order;
  for (const ComparisonRow& row : comparison.rows) order.push_back(&row);
  std::stable_partition(order.begin(), order.end(),
                        [](const ComparisonRow* row) { return row->status != Status::pass; });
  for (const ComparisonRow* row : order) {
    const Colour colour = row->status == Status::pass           ? Colour::green
                          : row->status == Status::inconclusive ? Colour::yellow
                                                                : Colour::red;
    out << paint(fmt::format("{:<12}", upper(to_string(row->status))), colour, style.colour) << "  "
        << row->case_id;
    if (!row->arm.empty()) out << "  " << row->arm;
    if (!row->quantity.empty()) out << "  " << row->quantity;
    out << "\n";
    const std::string ratio = row->base && row->fresh
                                  ? fmt::format("new / base {} {}: ", percent(row->ratio),
                                                interval({row->ratio, row->low, row->high, 0}))
                                  : "";
    write_wrapped(out, ratio + row->words, 14, columns(style));
  }
  out << comparison.rows.size() << " values compared\n";
  write_exit_code(out, code, style);
}

}  // namespace dettax
