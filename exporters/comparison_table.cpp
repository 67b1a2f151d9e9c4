#include <ostream>

#include <fmt/format.h>

#include "exporters/words.h"
#include "harness/base/format.h"

namespace dettax {

namespace {

void write_provenance(std::ostream& out, const Comparison& comparison, const TableStyle& style) {
  if (comparison.provenance_differences.empty()) return;
  out << paint(comparison.rows.empty()
                   ? "not compared, the runs were not made under the same conditions:"
                   : "compared although the runs were not made under the same conditions:",
               Colour::red, style.colour)
      << "\n";
  for (const std::string& difference : comparison.provenance_differences)
    write_wrapped(out, difference, kIndent, columns(style));
  out << "\n";
}

void write_row(std::ostream& out, const ComparisonRow& row, const TableStyle& style) {
  const Colour colour = row.status == Status::pass           ? Colour::green
                        : row.status == Status::inconclusive ? Colour::yellow
                                                             : Colour::red;
  out << paint(fmt::format("{:<12}", upper(to_string(row.status))), colour, style.colour) << "  "
      << row.case_id;
  if (!row.arm.empty()) out << "  " << row.arm;
  if (!row.quantity.empty()) out << "  " << row.quantity;
  out << "\n";
  const std::string ratio = row.base && row.fresh
                                ? fmt::format("new / base {} {}: ", percent(row.ratio),
                                              interval({row.ratio, row.low, row.high, 0}))
                                : "";
  write_wrapped(out, ratio + row.words, 14, columns(style));
}

}  // namespace

void write_comparison(std::ostream& out, const Comparison& comparison, const TableStyle& style) {
  write_provenance(out, comparison, style);
  for (const bool passed : {false, true}) {
    for (const ComparisonRow& row : comparison.rows) {
      if ((row.status == Status::pass) == passed) write_row(out, row, style);
    }
  }
  out << format_things(std::ssize(comparison.rows), "value") << " compared\n";
  write_exit_code(out, static_cast<ExitCode>(comparison.exit_code), style);
}

}  // namespace dettax
