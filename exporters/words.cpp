#include "exporters/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/format.h"

namespace dettax {
std::string meaning(ExitCode code) {
  for (const ExitCodeInfo& info : exit_code_table()) {
    if (info.code == code) return std::string(info.meaning);
  }
  return "ended by a signal";
}

size_t columns(const TableStyle& style) {
  constexpr int kLeast = 60;
  return static_cast<size_t>(std::max(kLeast, style.width));
}

Colour colour_of(ExitCode code) {
  switch (code) {
    case ExitCode::pass:
      return Colour::green;
    case ExitCode::inconclusive:
      return Colour::yellow;
    case ExitCode::skipped:
      return Colour::dim;
    default:
      return Colour::red;
  }
}

std::string upper(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return word;
}

std::string percent(double ratio) {
  return std::isfinite(ratio) ? format_signed_percent(ratio - 1, 2) : "unknown";
}
std::string interval(const Estimate& ratio) {
  if (!std::isfinite(ratio.low) || !std::isfinite(ratio.high)) return "unknown";
  return fmt::format("[{:+.2f}, {:+.2f}] %", 100 * (ratio.low - 1), 100 * (ratio.high - 1));
}

std::string signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + format_seconds(std::abs(seconds));
}

std::string time_interval(const Estimate& seconds) {
  if (!std::isfinite(seconds.low) || !std::isfinite(seconds.high)) return "unknown";
  const std::string low = format_seconds(seconds.low), high = format_seconds(seconds.high);
  const size_t low_unit = low.rfind(' '), high_unit = high.rfind(' ');
  const bool same = low_unit != std::string::npos && high_unit != std::string::npos &&
                    low.substr(low_unit) == high.substr(high_unit);
  if (!same) return fmt::format("[{}, {}]", low, high);
  return fmt::format("[{}, {}]{}", low.substr(0, low_unit), high.substr(0, high_unit),
                     high.substr(high_unit));
}

std::string control_words(const std::vector<KnobControl>& controls) {
  constexpr std::array<std::pair<ControlStatus, const char*>, 4> kGroups{{
      {ControlStatus::caught, "caught"},
      {ControlStatus::misplaced, "at another op"},
      {ControlStatus::not_shown, "not shown"},
      {ControlStatus::not_run, "not run"},
  }};
  std::string words;
  for (const auto& [status, name] : kGroups) {
    std::vector<std::pair<std::string, std::string>> by_reason;  // reason -> knobs
    for (const KnobControl& control : controls) {
      if (control.status != status) continue;
      auto same = std::find_if(by_reason.begin(), by_reason.end(),
                               [&](const auto& one) { return one.first == control.reason; });
      if (same == by_reason.end()) same = by_reason.insert(same, {control.reason, ""});
      same->second += " " + control.knob;
    }
    for (size_t i = 0; i < by_reason.size(); ++i) {
      const auto& [reason, knobs] = by_reason[i];
      if (i == 0) words += fmt::format("{}{}:", words.empty() ? "" : "; ", name);
      if (i > 0) words += ",";
      words += knobs;
      if (!reason.empty()) words += fmt::format(" ({})", reason);
    }
  }
  return words;
}

void write_exit_code(std::ostream& out, ExitCode code, const TableStyle& style) {
  out << paint(fmt::format("exit code {}: {}", static_cast<int>(code), meaning(code)),
               colour_of(code), style.colour)
      << "\n";
}

}  // namespace dettax
