#include "exporters/report_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/exit_code.h"

namespace dettax {

std::vector<const Record*> by_severity(const std::vector<Record>& records) {
  const auto rank = [](const Record* record) {
    switch (static_cast<ExitCode>(record->verdict.exit_code)) {
      case ExitCode::pass:
        return 3;
      case ExitCode::inconclusive:
        return 2;
      case ExitCode::skipped:
        return 4;
      case ExitCode::fail:
        return 1;
      default:
        return 0;
    }
  };
  std::vector<const Record*> order;
  order.reserve(records.size());
  for (const Record& record : records) order.push_back(&record);
  std::stable_sort(order.begin(), order.end(),
                   [&](const Record* a, const Record* b) { return rank(a) < rank(b); });
  return order;
}

std::string verdict_counts(const std::vector<Record>& records) {
  std::string words = fmt::format("{} case{}", records.size(), records.size() == 1 ? "" : "s");
  const char* separator = ": ";
  for (Status status :
       {Status::error, Status::fail, Status::inconclusive, Status::pass, Status::skipped}) {
    const auto count = std::count_if(records.begin(), records.end(),
                                     [&](const Record& r) { return r.verdict.status == status; });
    if (count == 0) continue;
    words += fmt::format("{}{} {}", separator, count, to_string(status));
    separator = ", ";
  }
  return words;
}

const Record* first_that_ran(const std::vector<Record>& records) {
  const auto ran = std::find_if(records.begin(), records.end(), [](const Record& record) {
    return !record.environment.started_at.empty();
  });
  return ran == records.end() ? nullptr : &*ran;
}

}  // namespace dettax
