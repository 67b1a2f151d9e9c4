#include "harness/base/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace dettax {
namespace {

// Three significant digits without an exponent: 1.23, 12.3, 123, 1234.
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, digits);
}

// value with the largest unit that leaves it at least 1; the first unit is for whole numbers.
template <size_t N>
std::string scaled(double value, double step, const std::array<std::string_view, N>& units) {
  size_t unit = 0;
  // Compared as printed: 1023.9 KiB rounds to 1024 and is better said as 1.00 MiB.
  while (unit + 1 < N && std::abs(value) >= step - 0.5) {
    value /= step;
    ++unit;
  }
  const bool whole = unit == 0 && value == std::floor(value);
  const std::string number = whole ? fmt::format("{:.0f}", value) : three_digits(value);
  return units[unit].empty() ? number : fmt::format("{} {}", number, units[unit]);
}

std::string long_duration(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const auto minutes = std::llround(seconds / 60);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string format_number(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return format_number(seconds);
  const double size = std::abs(seconds);
  if (size >= 99.95) return (seconds < 0 ? "-" : "") + long_duration(size);
  if (size == 0) return "0 s";
  if (size >= 0.9995) return three_digits(seconds) + " s";
  if (size >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  if (size >= 0.9995e-6) return three_digits(seconds * 1e6) + " us";
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::string format_bytes(double bytes) {
  static constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                             "GiB", "TiB", "PiB"};
  return std::isfinite(bytes) ? scaled(bytes, 1024, kUnits) : format_number(bytes);
}

std::string format_count(double count) {
  static constexpr std::array<std::string_view, 6> kUnits = {"", "k", "M", "G", "T", "P"};
  return std::isfinite(count) ? scaled(count, 1000, kUnits) : format_number(count);
}

std::string format_percent(double ratio, int digits) {
  return std::isfinite(ratio) ? fmt::format("{:.{}f} %", ratio * 100, digits)
                              : format_number(ratio);
}

std::string format_signed_percent(double ratio, int digits) {
  return std::isfinite(ratio) ? fmt::format("{:+.{}f} %", ratio * 100, digits)
                              : format_number(ratio);
}

std::string format_things(int64_t count, std::string_view thing) {
  const char* ending = count == 1 ? "" : thing.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, thing, ending);
}

namespace {

// The middle is left out where the whole does not fit: a case's name begins with its number and ends with what is done.
std::string shortened(std::string_view text, int columns) {
  const auto size = static_cast<int>(text.size());
  constexpr int kDots = 2;
  if (size <= columns) return std::string(text);
  if (columns <= kDots) return "";
  const int head = (columns - kDots) / 2;
  const int tail = columns - kDots - head;
  return fmt::format("{}..{}", text.substr(0, static_cast<size_t>(head)),
                     text.substr(static_cast<size_t>(size - tail)));
}

}  // namespace

std::string progress_bar(const Progress& progress, int width) {
  const double fraction =
      std::isfinite(progress.fraction) ? std::clamp(progress.fraction, 0.0, 1.0) : 0.0;
  // Floor: 100 % is shown only when it is done.
  std::string tail = fmt::format(" {:3.0f} %", std::floor(fraction * 100));
  if (progress.seconds_left) tail += ", " + format_seconds(*progress.seconds_left) + " left";
  const int columns = std::max(width, 0);
  constexpr int kShortestBar = 5;
  std::string line = shortened(progress.label, columns - static_cast<int>(tail.size()));
  const int room = columns - static_cast<int>(line.size()) - static_cast<int>(tail.size()) - 3;
  if (room >= kShortestBar) {
    const int bar = std::min(room, 40);
    const int done = static_cast<int>(fraction * bar);
    line += fmt::format(" [{:#<{}}{:.<{}}]", "", done, "", bar - done);
  }
  line += tail;
  line.resize(static_cast<size_t>(columns), ' ');
  return line;
}

}  // namespace dettax
