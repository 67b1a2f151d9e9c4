#include "results/analysis/acceptance/collectives.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// size count type redop root, then time algbw busbw wrong out of place and again in place
constexpr size_t kOutOfPlace = 5, kInPlace = 9, kOneHalf = 9, kBothHalves = 13;
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

double amount(const std::string& text, const std::string& where) {
  const auto value = number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0)
    throw Error(ErrorKind::config,
                fmt::format("{}: \"{}\" stands where a number from 0 on is expected", where, text));
  return *value;
}

CollectiveRow half_of(const std::vector<std::string>& columns, size_t first,
                      const std::string& where) {
  CollectiveRow row;
  row.message_bytes = amount(columns[0], where);
  row.seconds = amount(columns[first], where) * kMicro;
  row.bus_bytes_per_second = amount(columns[first + 2], where) * kGiga;
  row.in_place = first == kInPlace;
  const std::string& wrong = columns[first + 3];
  if (wrong == "N/A") return row;
  row.wrong = number<int64_t>(wrong);
  if (!row.wrong || *row.wrong < 0)
    throw Error(ErrorKind::config,
                fmt::format("{}: #wrong is \"{}\"; a count or N/A is expected", where, wrong));
  return row;
}

void add_rows(CollectiveTable& table, const std::vector<std::string>& columns,
              const std::string& where) {
  if (columns.size() != kOneHalf && columns.size() < kBothHalves)
    throw Error(
        ErrorKind::config,
        fmt::format("{}: {} columns; size, count, type, redop, root, and time, algbw, busbw and "
                    "#wrong out of place and again in place are expected",
                    where, columns.size()));
  table.rows.push_back(half_of(columns, kOutOfPlace, where));
  if (columns.size() >= kBothHalves) table.rows.push_back(half_of(columns, kInPlace, where));
}

// As nccl-tests prints them: "Test NCCL failure common.cu:958 '...'", "Test failure common.cu:1006" and "# Out of bounds values : 2
// FAILED".
bool says_failure(const std::string& line) {
  for (const char* words : {"NCCL failure", "CUDA failure", "Test failure"}) {
    if (line.find(words) != std::string::npos) return true;
  }
  return line.find("Out of bounds values") != std::string::npos &&
         line.find("FAILED") != std::string::npos;
}

std::string words_of(const CollectiveRow& row) {
  return fmt::format("{} bytes {}: {}", row.message_bytes,
                     row.in_place ? "in place" : "out of place",
                     row.wrong.value_or(0) > 0 ? fmt::format("{} wrong elements", *row.wrong)
                                               : std::string("no time"));
}

}  // namespace

CollectiveTable parse_collective_table(const std::string& text, const std::string& name) {
  CollectiveTable table;
  table.name = name;
  int line_number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++line_number;
    if (table.failure.empty() && says_failure(line))
      table.failure = fmt::format("line {}: {}", line_number, trim(line));
    const std::vector<std::string> columns = columns_of(line);
    if (columns.empty() || !number<int64_t>(columns.front())) continue;
    add_rows(table, columns, fmt::format("{}:{}", name, line_number));
  }
  return table;
}

CollectiveVerdict judge_collective(const CollectiveTable& table, const AcceptanceRules& rules) {
  CollectiveVerdict verdict;
  if (!table.failure.empty()) {
    verdict.code = "wrong_results";
    verdict.words = fmt::format("{}: connectivity FAIL: {}", table.name, table.failure);
    return verdict;
  }
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
    verdict.words = fmt::format("{}: connectivity FAIL: {}", table.name, words_of(*bad));
    return verdict;
  }
  verdict.connected = true;
  verdict.words = table.name + ": connectivity PASS";
  const auto largest = std::ranges::max_element(table.rows, {}, [](const CollectiveRow& row) {
    return std::pair(row.message_bytes, -row.bus_bytes_per_second);
  });
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
