#include "exporters/attribution_table.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "exporters/text_layout.h"
#include "exporters/words.h"
#include "harness/base/format.h"

namespace dettax {
namespace {

std::string interval_text(const AttributedTime& time) {
  if (!time.delta) return "no interval";
  return "[" + signed_seconds(time.delta->low) + ", " + signed_seconds(time.delta->high) + "]";
}

std::string share_text(double seconds, double of) {
  return of == 0 ? "" : fmt::format("{:.1f} %", 100 * seconds / of);
}

std::string count_text(double count) {
  const bool whole = count == std::floor(count);
  return whole ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}", count);
}

// "12 -> 2612 x 6.50 us"; nothing for what is not made of pieces.
std::string pieces_text(double fast, double deterministic, double busy_seconds) {
  if (fast == 0 && deterministic == 0) return "";
  std::string text = fast == deterministic ? count_text(fast)
                                           : count_text(fast) + " -> " + count_text(deterministic);
  if (deterministic > 0 && busy_seconds > 0)
    text += " x " + format_seconds(busy_seconds / deterministic);
  return text;
}

std::string steps_text(const ProfiledArm& arm) {
  return format_things(arm.steps, "step") + " of " + format_things(arm.ranks, "rank");
}

void write_head(std::ostream& out, const Attribution& attribution, const TableStyle& style) {
  const AttributedTime& step = attribution.step;
  out << "step time  fast " << format_seconds(step.fast_seconds) << " ("
      << steps_text(attribution.fast) << ")  deterministic "
      << format_seconds(step.deterministic_seconds) << " (" << steps_text(attribution.deterministic)
      << ")\n";
  out << paint("difference " + signed_seconds(step.delta_seconds), Colour::bold, style.colour);
  if (step.fast_seconds > 0)
    out << " (" << format_signed_percent(step.delta_seconds / step.fast_seconds) << ")";
  out << "  "
      << (step.delta ? interval_text(step) + fmt::format(", n = {}", step.delta->count)
                     : "no interval: too few steps")
      << "\n\n";
}

std::vector<Grid::Cell> time_cells(const AttributedTime& time, double total, Colour colour) {
  return {{format_seconds(time.fast_seconds)},
          {format_seconds(time.deterministic_seconds)},
          {signed_seconds(time.delta_seconds), colour},
          {share_text(time.delta_seconds, total)},
          {interval_text(time)}};
}

Colour colour_of_delta(const AttributedTime& time) {
  if (!time.delta || (time.delta->low <= 0 && time.delta->high >= 0)) return Colour::none;
  return time.delta_seconds > 0 ? Colour::red : Colour::green;
}

double busy_of(const Attribution& attribution, Mechanism mechanism) {
  double seconds = 0;
  for (const AttributionRow& row : attribution.rows) {
    if (row.mechanism == mechanism && !row.path.empty()) seconds += row.deterministic_busy_seconds;
  }
  return seconds;
}

void write_mechanisms(std::ostream& out, const Attribution& attribution, const TableStyle& style) {
  const double total = attribution.step.delta_seconds;
  Grid grid(1);
  const auto add = [&](const std::string& words, const AttributedTime& time,
                       const std::string& pieces, Colour colour) {
    std::vector<Grid::Cell> row{{words}};
    for (Grid::Cell& cell : time_cells(time, total, colour)) row.push_back(std::move(cell));
    row.push_back({pieces});
    grid.add(std::move(row));
  };
  grid.add({{"mechanism", Colour::dim},
            {"fast", Colour::dim},
            {"deterministic", Colour::dim},
            {"difference", Colour::dim},
            {"share", Colour::dim},
            {"interval", Colour::dim},
            {"pieces", Colour::dim}});
  for (const MechanismRow& row : attribution.mechanisms)
    add(std::string(words_of(row.mechanism)), row.time,
        pieces_text(row.fast_count, row.deterministic_count, busy_of(attribution, row.mechanism)),
        colour_of_delta(row.time));
  add("unmapped", attribution.unmapped, "", Colour::none);
  add("total", attribution.step, "", Colour::bold);
  grid.write(out, 0, style.colour);
  if (attribution.distortion_seconds)
    out << "outside of the profiler the difference is "
        << signed_seconds(total + *attribution.distortion_seconds) << ": profiling changed it by "
        << signed_seconds(-*attribution.distortion_seconds) << "\n";
}

std::string path_text(const AttributionRow& row) {
  std::string text = row.path.empty() ? "(unmapped)" : row.path;
  return row.ordinal ? fmt::format("{} #{}", text, *row.ordinal) : text;
}

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - width + 3);
}

std::string match_text(KeyMatch match) {
  if (match == KeyMatch::both) return "";
  return match == KeyMatch::fast_only ? "fast only" : "deterministic only";
}

void write_keys(std::ostream& out, const Attribution& attribution, const TableStyle& style,
                size_t keys) {
  Grid grid(2);
  grid.add({{"where", Colour::dim},
            {"mechanism", Colour::dim},
            {"fast", Colour::dim},
            {"deterministic", Colour::dim},
            {"difference", Colour::dim},
            {"share", Colour::dim},
            {"interval", Colour::dim},
            {"pieces", Colour::dim},
            {"", Colour::dim}});
  size_t shown = 0;
  for (const AttributionRow& row : attribution.rows) {
    if (shown == keys || row.time.delta_seconds == 0) break;
    ++shown;
    std::vector<Grid::Cell> cells{{shortened(path_text(row), 48)},
                                  {std::string(key_of(row.mechanism))}};
    for (Grid::Cell& cell :
         time_cells(row.time, attribution.step.delta_seconds, colour_of_delta(row.time)))
      cells.push_back(std::move(cell));
    cells.push_back(
        {pieces_text(row.fast_count, row.deterministic_count, row.deterministic_busy_seconds)});
    cells.push_back({match_text(row.match), Colour::yellow});
    grid.add(std::move(cells));
  }
  if (shown == 0) return;
  out << "\nlargest differences, " << shown << " of " << attribution.rows.size() << " keys\n";
  grid.write(out, 0, style.colour);
}

// Where other work stands in a key than in the fast arm.
void write_replacements(std::ostream& out, const Attribution& attribution, const TableStyle& style,
                        size_t keys) {
  size_t shown = 0;
  for (const AttributionRow& row : attribution.rows) {
    const bool replaced = !row.fast_work.empty() && !row.deterministic_work.empty() &&
                          row.fast_work != row.deterministic_work;
    if (!replaced || row.fast_count + row.deterministic_count == 0 || shown == keys) continue;
    if (shown++ == 0) out << "\nother work under the same key (the longest piece of each)\n";
    write_wrapped(out, path_text(row) + ": " + row.fast_work + " -> " + row.deterministic_work,
                  kIndent, columns(style));
  }
}

}  // namespace

void write_attribution(std::ostream& out, const Attribution& attribution, const TableStyle& style,
                       size_t keys) {
  write_head(out, attribution, style);
  write_mechanisms(out, attribution, style);
  write_keys(out, attribution, style, keys);
  write_replacements(out, attribution, style, keys);
  if (!attribution.notes.empty()) out << "\n";
  for (const std::string& note : attribution.notes)
    write_wrapped(out, "note: " + note, 0, columns(style));
  for (const std::string& advice : attribution.advice)
    write_wrapped(out, "advice: " + advice, 0, columns(style));
}

}  // namespace dettax
