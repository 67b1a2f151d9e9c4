// One page that opens offline: everything it needs stands in it. All words are there without a script; the script draws the charts.
#include <algorithm>
#include <map>
#include <ostream>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/exporter.h"
#include "exporters/html/assets.h"
#include "exporters/html/case_section.h"
#include "exporters/html/chart_data.h"
#include "exporters/html/evidence_section.h"
#include "exporters/html/markup.h"
#include "exporters/html/nodes_section.h"
#include "exporters/html/outlook_section.h"
#include "exporters/report_order.h"
#include "exporters/tax_state.h"
#include "exporters/words.h"
#include "harness/base/format.h"
#include "results/reason.h"

namespace dettax {
namespace {

constexpr size_t kFewCases = 3;  // so many are opened, and of more those that are bad

void write_asset(std::ostream& out, const Asset& asset) {
  for (const std::string_view piece : asset) out << piece;
}

const char* band_of(ExitCode code) {
  switch (code) {
    case ExitCode::pass:
      return "pass";
    case ExitCode::inconclusive:
      return "inconclusive";
    case ExitCode::skipped:
      return "skipped";
    default:
      return "fail";
  }
}

void write_head(std::ostream& out) {
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
         "'unsafe-inline'; style-src 'unsafe-inline'\">\n"
         "<title>dettax report</title>\n<style>\n";
  write_asset(out, report_style());
  out << "</style>\n</head>\n<body>\n";
}

void write_button(std::ostream& out, std::string_view band) {
  out << "<header class=\"" << band
      << "\">\n<button id=\"theme\" type=\"button\">light / dark</button>\n";
}

// Links to what an outlook adds.
void write_outlook_links(std::ostream& out, const Outlook* outlook) {
  if (outlook == nullptr) return;
  if (!outlook->projections.empty()) out << "<a href=\"#projection\">projection</a>";
  if (outlook->decision) out << "<a href=\"#decision\">does it pay?</a>";
}

// Of a page that holds nothing measured.
void write_outlook_head(std::ostream& out, const Outlook& outlook) {
  write_button(out, "expected");
  write_element(out, "h1", outlook.decision ? "Does determinism pay?" : "Projected step times");
  write_element(out, "p", "Nothing on this page was measured by this run of dettax.");
  out << "<nav>";
  write_outlook_links(out, &outlook);
  out << "</nav>\n</header>\n";
}

void write_verdict(std::ostream& out, const std::vector<Record>& records, const Outlook* outlook) {
  const ExitCode code = combined_exit_code(records);
  write_button(out, band_of(code));
  std::string title = meaning(code);
  write_element(out, "h1", upper(title.substr(0, 1)) + title.substr(1));
  write_element(out, "p",
                fmt::format("{}; exit code {}", verdict_counts(records), static_cast<int>(code)));
  if (const Record* ran = first_that_ran(records); ran != nullptr) {
    const Environment& e = ran->environment;
    write_element(out, "p",
                  fmt::format("run {}, suite {}, {}, on {} ({})", ran->run_id, ran->suite,
                              e.started_at, e.host, e.cpu_model));
  }
  out << "<nav><a href=\"#tax\">tax</a><a href=\"#evidence\">evidence</a><a "
         "href=\"#cases\">cases</a>"
         "<a href=\"#open\">what was not shown</a><a "
         "href=\"#environment\">environment</a>";
  write_outlook_links(out, outlook);
  out << "</nav>\n</header>\n";
}

void write_tax(std::ostream& out, const std::vector<const Record*>& records) {
  out << "<section id=\"tax\">\n<h2>The determinism tax of each case</h2>\n";
  if (records.empty()) {
    write_element(out, "p", "There is no case.");
  } else {
    write_element(out, "p",
                  "Step time of the deterministic arm over that of the fast one, minus 1, with its "
                  "interval. A dashed interval does not decide; what has no tax says why.",
                  "dim");
    out << "<div class=\"chart\" data-chart=\"forest\"></div>\n";
  }
  out << "</section>\n";
}

void write_cases(std::ostream& out, const std::vector<const Record*>& records) {
  out << "<section id=\"cases\">\n<h2>Cases</h2>\n";
  for (size_t i = 0; i < records.size(); ++i) {
    const Status status = records[i]->verdict.status;
    const bool bad = status == Status::fail || status == Status::error;
    write_case_section(out, *records[i], i, records.size() <= kFewCases || (bad && i < kFewCases));
  }
  out << "</section>\n";
}

void write_not_shown(std::ostream& out, const std::vector<const Record*>& records) {
  out << "<section id=\"open\">\n<h2>What was not shown</h2>\n";
  HtmlTable table({"case", "what"});
  for (const Record* record : records) {
    const Status status = record->verdict.status;
    if (status != Status::pass && status != Status::fail) {
      table.add({{record->case_id, ""},
                 {fmt::format("{}: {}", to_string(status), record->verdict.reason), ""}});
    }
    for (const std::string& line : not_shown(*record))
      table.add({{record->case_id, ""}, {line, ""}});
  }
  if (table.empty()) {
    write_element(out, "p", "Nothing: every case was judged, and every race would have shown.");
  } else {
    table.write(out);
  }
  out << "</section>\n";
}

std::vector<std::pair<std::string, std::string>> environment_rows(const Record& record) {
  const Environment& e = record.environment;
  std::vector<std::pair<std::string, std::string>> rows{
      {"host", e.host},
      {"processor", fmt::format("{}, {} cores", e.cpu_model, e.cores)},
      {"memory", format_bytes(static_cast<double>(e.memory_bytes))},
      {"kernel", e.kernel},
      {"instruction set", e.simd_target},
      {"dettax", fmt::format("{}, commit {}", e.tool_version, e.git_commit)},
      {"build", fmt::format("{} {}", e.compiler, e.build_type)},
      {"suite", fmt::format("{}, hash {}", record.suite, record.suite_hash)},
      {"run", record.run_id}};
  for (const auto& [name, value] : e.variables) rows.emplace_back(name, value);
  return rows;
}

// Cases that share all of it share a table.
void write_environments(std::ostream& out, const std::vector<const Record*>& records) {
  out << "<section id=\"environment\">\n<h2>Environment and provenance</h2>\n";
  std::vector<std::pair<std::vector<std::pair<std::string, std::string>>, int>> seen;
  for (const Record* record : records) {
    if (record->environment.started_at.empty()) continue;
    const auto rows = environment_rows(*record);
    const auto same =
        std::find_if(seen.begin(), seen.end(), [&](const auto& one) { return one.first == rows; });
    if (same == seen.end()) {
      seen.emplace_back(rows, 1);
    } else {
      ++same->second;
    }
  }
  if (seen.empty()) write_element(out, "p", "No case ran.");
  for (const auto& [rows, cases] : seen) {
    HtmlTable table({format_things(cases, "case"), ""});
    for (const auto& [name, value] : rows) table.add({{name, "dim"}, {value, ""}});
    table.write(out);
  }
  out << "</section>\n";
}

}  // namespace

void write_html(std::ostream& out, const std::vector<Record>& records,
                const ExportSettings& settings) {
  const Outlook* outlook = settings.outlook;
  const std::vector<const Record*> order = by_severity(records);
  write_head(out);
  if (outlook != nullptr && records.empty()) {
    write_outlook_head(out, *outlook);
    write_outlook_sections(out, *outlook);
  } else {
    write_verdict(out, records, outlook);
    write_nodes_section(out, order);
    write_tax(out, order);
    write_evidence_section(out, order);
    write_cases(out, order);
    write_not_shown(out, order);
    if (outlook != nullptr) write_outlook_sections(out, *outlook);
    write_environments(out, order);
  }
  out << "<script type=\"application/json\" id=\"data\">";
  write_chart_data(out, order, outlook);
  out << "</script>\n<script>\n";
  write_asset(out, d3_script());
  out << "\n</script>\n<script>\n";
  write_asset(out, report_script());
  out << "</script>\n</body>\n</html>\n";
}

}  // namespace dettax
