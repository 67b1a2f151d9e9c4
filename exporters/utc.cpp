#include "exporters/utc.h"

#include <chrono>
#include <cstdio>

namespace dettax {

std::optional<double> seconds_of_utc(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, read = 0;
  // NOLINTNEXTLINE(cert-err34-c): what is out of range is refused below
  const int fields = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day,
                                 &hour, &minute, &second, &read);
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  const bool whole = fields == 6 && read == static_cast<int>(text.size()) && date.ok() &&
                     hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                     second <= 60;
  if (!whole) return std::nullopt;
  const auto at = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second);
  return static_cast<double>(at.time_since_epoch().count());
}

}  // namespace dettax
