#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dettax {

// Numbers for machines: the shortest text that reads back as the same double; independent of the
// locale. Not a number and infinity become "nan", "inf", "-inf": the caller decides what a format
// without them gets.
std::string format_number(double value);

// Numbers for people.
std::string format_seconds(double seconds);  // 412 ns, 3.21 ms, 12.3 s, 4 min 05 s, 2 h 07 min
std::string format_bytes(double bytes);      // 512 B, 1.50 KiB, 13.2 GiB
std::string format_count(double count);      // 950, 12.3 k, 124 M, 405.9 G
std::string format_percent(double ratio, int digits = 1);         // 0.0312 -> "3.1 %"
std::string format_signed_percent(double ratio, int digits = 1);  // 0.0312 -> "+3.1 %"

// "1 case", "3 cases", "2 micro-batches".
std::string format_things(int64_t count, std::string_view thing);

// One line for a terminal, exactly `width` columns (cut or padded):
//   label [######......] 42 %, 1 min 20 s left
struct Progress {
  std::string_view label;
  double fraction = 0;  // clamped to 0..1
  std::optional<double> seconds_left;
};
std::string progress_bar(const Progress& progress, int width);

}  // namespace dettax
