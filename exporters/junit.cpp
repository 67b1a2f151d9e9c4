// JUnit XML as Jenkins, GitLab and GitHub read it: a testsuite a run, a testcase a case.
#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/exporter.h"
#include "exporters/report_order.h"
#include "exporters/tax_state.h"
#include "harness/base/format.h"

namespace dettax {
namespace {

constexpr size_t kLongestMessage = 500;

enum class Outcome { passed, failure, error, skipped };

Outcome outcome_of(const Record& record, bool strict) {
  switch (record.verdict.status) {
    case Status::pass:
      return Outcome::passed;
    case Status::fail:
      return Outcome::failure;
    case Status::inconclusive:
      return strict ? Outcome::failure : Outcome::skipped;
    case Status::skipped:
      return Outcome::skipped;
    case Status::error:
      return Outcome::error;
  }
  return Outcome::error;
}

struct Counts {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

Counts count(const std::vector<const Record*>& records, bool strict) {
  Counts counts;
  for (const Record* record : records) {
    const Outcome outcome = outcome_of(*record, strict);
    ++counts.tests;
    counts.failures += outcome == Outcome::failure ? 1 : 0;
    counts.errors += outcome == Outcome::error ? 1 : 0;
    counts.skipped += outcome == Outcome::skipped ? 1 : 0;
    if (std::isfinite(record->duration_seconds)) counts.seconds += record->duration_seconds;
  }
  return counts;
}

// A schema of Jenkins wants times with three decimals.
std::string attributes(const Counts& counts) {
  return fmt::format(R"(tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")",
                     counts.tests, counts.failures, counts.errors, counts.skipped, counts.seconds);
}

// <model>.<precision> and the rest of the case's name, which begins with its layout and topology. A case that was not started has
// nothing but its name.
std::pair<std::string, std::string> names_of(const Record& record) {
  constexpr std::array kPrecisions{Precision::fp32,   Precision::tf32,   Precision::bf16,
                                   Precision::fp16,   Precision::fp8_cs, Precision::fp8_ds,
                                   Precision::fp8_mx, Precision::nvfp4};
  const std::string& id = record.case_id;
  for (const Precision precision : kPrecisions) {
    const std::string part = fmt::format(".{}.", to_string(precision));
    const size_t at = id.find(part);
    if (at == std::string::npos) continue;
    const size_t end = at + part.size() - 1;
    return {id.substr(0, end), id.substr(end + 1)};
  }
  return {record.suite.empty() ? "dettax" : record.suite, id};
}

void property(std::ostream& out, const std::string& name, const std::string& value) {
  if (value.empty()) return;
  out << "        <property name=\"" << xml_text(name) << "\" value=\"" << xml_text(value)
      << "\"/>\n";
}

std::string known(double value) { return std::isfinite(value) ? format_number(value) : ""; }

void write_properties(std::ostream& out, const Record& record) {
  out << "      <properties>\n";
  property(out, "case_id", record.case_id);
  property(out, "status", to_string(record.verdict.status));
  property(out, "reason_code", record.verdict.reason_code);
  for (const Tax& tax : record.taxes) {
    const TaxState state = tax_state(record, tax);
    const Estimate& ratio = tax.overhead_ratio;
    property(out, tax.arm + ".tax", to_string(state));
    if (has_value(state)) property(out, tax.arm + ".overhead_ratio", known(ratio.value));
    if (has_interval(state)) {
      property(out, tax.arm + ".overhead_ci_low", known(ratio.low));
      property(out, tax.arm + ".overhead_ci_high", known(ratio.high));
    }
    property(out, tax.arm + ".min_detectable_overhead_ratio",
             known(tax.min_detectable_overhead_ratio));
    const ArmResult* arm = find_arm(record, tax.arm);
    if (arm != nullptr) property(out, tax.arm + ".mode_hash", arm->mode_hash);
  }
  out << "      </properties>\n";
}

void write_outcome(std::ostream& out, const Record& record, Outcome outcome) {
  if (outcome == Outcome::passed) return;
  const std::string& reason = record.verdict.reason;
  const std::string message = xml_text(first_line(reason, kLongestMessage));
  if (outcome == Outcome::skipped) {
    out << "      <skipped message=\"" << message << "\"/>\n";
    return;
  }
  const char* element = outcome == Outcome::failure ? "failure" : "error";
  out << fmt::format("      <{} message=\"{}\" type=\"{}\">{}</{}>\n", element, message,
                     xml_text(record.verdict.reason_code), xml_text(reason), element);
}

// For people who read the log of a test that passed, too.
void write_notes(std::ostream& out, const Record& record) {
  std::string text;
  for (const Tax& tax : record.taxes)
    text += fmt::format("{}: {}\n", tax.arm, tax_words(record, tax));
  for (const std::string& line : caveats(record)) text += line + "\n";
  for (const std::string& line : not_shown(record)) text += "not shown: " + line + "\n";
  if (!text.empty()) out << "      <system-out>" << xml_text(text) << "</system-out>\n";
}

void write_case(std::ostream& out, const Record& record, bool strict) {
  const auto [classname, name] = names_of(record);
  const double seconds = std::isfinite(record.duration_seconds) ? record.duration_seconds : 0;
  out << fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n",
                     xml_text(classname), xml_text(name), seconds);
  write_properties(out, record);
  write_outcome(out, record, outcome_of(record, strict));
  write_notes(out, record);
  out << "    </testcase>\n";
}

// Runs in the order in which they come.
std::vector<std::vector<const Record*>> by_run(const std::vector<Record>& records) {
  std::vector<std::vector<const Record*>> runs;
  for (const Record& record : records) {
    auto run = std::find_if(runs.begin(), runs.end(),
                            [&](const auto& one) { return one.front()->run_id == record.run_id; });
    if (run == runs.end()) run = runs.emplace(run);
    run->push_back(&record);
  }
  return runs;
}

// Without the zone, as the schemas have it; it is UTC.
std::string timestamp(const std::string& started_at) {
  return started_at.empty() ? "1970-01-01T00:00:00" : started_at.substr(0, 19);
}

void write_run(std::ostream& out, const std::vector<const Record*>& records, bool strict) {
  std::string name, started_at, host = "unknown";
  for (const Record* record : records) {
    if (name.empty()) name = record->suite;
    if (started_at.empty() && !record->environment.started_at.empty()) {
      started_at = record->environment.started_at;
      host = record->environment.host;
    }
  }
  if (name.empty()) name = "dettax";
  out << fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{}\" hostname=\"{}\">\n",
                     xml_text(name), attributes(count(records, strict)),
                     xml_text(timestamp(started_at)), xml_text(host));
  for (const Record* record : records) write_case(out, *record, strict);
  out << "  </testsuite>\n";
}

}  // namespace

void write_junit(std::ostream& out, const std::vector<Record>& records,
                 const ExportSettings& settings) {
  std::vector<const Record*> all;
  for (const Record& record : records) all.push_back(&record);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"dettax\" "
      << attributes(count(all, settings.strict)) << ">\n";
  for (const auto& run : by_run(records)) write_run(out, run, settings.strict);
  out << "</testsuites>\n";
}

}  // namespace dettax
