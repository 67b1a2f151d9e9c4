#include "results/analysis/acceptance/collectives.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// size count type redop root, then time algbw busbw wrong out of place and again in place
constexpr size_t kFirstTime = 5, kFewest = 9;
constexpr double kMicro = 1e-6, kGiga = 1e9;

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  return fault == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::string text = line;
  std::ranges::replace(text, '\t', ' ');
  for (std::string& part : split(text, ' ')) {
    if (!trim(part).empty()) columns.emplace_back(trim(part));
  }
  return columns;
}

CollectiveRow row_of(const std::vector<std::string>& columns, const std::string& where) {
  const auto need = [&](size_t column) {
    const auto value = number<double>(columns[column]);
    if (!value || *value < 0)
      throw Error(ErrorKind::config, fmt::format("{}: \"{}\" stands where a number is expected",
                                                 where, columns[column]));
    return *value;
  };
  if (columns.size() < kFewest)
    throw Error(
        ErrorKind::config,
        fmt::format("{}: {} columns; size, count, type, redop, root, time, algbw, busbw and "
                    "#wrong are expected",
                    where, columns.size()));
  CollectiveRow row;
  row.message_bytes = need(0);
  row.seconds = need(kFirstTime) * kMicro;
  row.bus_bytes_per_second = need(kFirstTime + 2) * kGiga;
  const std::string& wrong = columns[kFirstTime + 3];
  if (wrong == "N/A") return row;
  row.wrong = number<int64_t>(wrong);
  if (!row.wrong)
    throw Error(ErrorKind::config,
                fmt::format("{}: #wrong is \"{}\"; a count or N/A is expected", where, wrong));
  return row;
}

}  // namespace

CollectiveTable parse_collective_table(const std::string& text, const std::string& name) {
  CollectiveTable table;
  table.name = name;
  int line_number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++line_number;
    const std::vector<std::string> columns = columns_of(line);
    if (columns.empty() || !number<int64_t>(columns.front())) continue;
    table.rows.push_back(row_of(columns, fmt::format("{}:{}", name, line_number)));
  }
  return table;
}

CollectiveVerdict judge_collective(const CollectiveTable& table, const AcceptanceRules& rules) {
  CollectiveVerdict verdict;
  if (table.rows.empty()) {
    verdict.code = "no_measurement";
    verdict.words = table.name + ": no row: nothing was measured";
    return verdict;
  }
  const auto bad = std::ranges::find_if(table.rows, [](const CollectiveRow& row) {
    return row.wrong.value_or(0) > 0 || !(row.seconds > 0);
  });
  if (bad != table.rows.end()) {
    verdict.code = "wrong_results";
    verdict.words =
        fmt::format("{}: connectivity FAIL: {} bytes: {}", table.name, bad->message_bytes,
                    bad->seconds > 0 ? fmt::format("{} wrong elements", bad->wrong.value_or(0))
                                     : std::string("no time"));
    return verdict;
  }
  verdict.connected = true;
  verdict.words = table.name + ": connectivity PASS";
  const auto largest = std::ranges::max_element(table.rows, {}, &CollectiveRow::message_bytes);
  if (largest->message_bytes < rules.bandwidth_min_message_bytes) {
    verdict.words += fmt::format(
        ", bandwidth not measured (size below limit: {} at most, from {} on)",
        format_bytes(largest->message_bytes), format_bytes(rules.bandwidth_min_message_bytes));
    return verdict;
  }
  verdict.words += fmt::format(", {}/s at {}", format_bytes(largest->bus_bytes_per_second),
                               format_bytes(largest->message_bytes));
  if (!rules.min_bus_bytes_per_second) {
    verdict.words += ", no limit given";
    return verdict;
  }
  verdict.wide_enough = largest->bus_bytes_per_second >= *rules.min_bus_bytes_per_second;
  verdict.words += fmt::format(", limit {}/s", format_bytes(*rules.min_bus_bytes_per_second));
  if (!*verdict.wide_enough) verdict.code = "low_bandwidth";
  return verdict;
}

}  // namespace dettax
