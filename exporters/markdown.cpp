// A summary in GitHub's Markdown: the verdict, a row an arm that is judged, then what was not shown.
#include <ostream>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/exporter.h"
#include "exporters/outlook.h"
#include "exporters/report_order.h"
#include "exporters/tax_state.h"
#include "exporters/words.h"
#include "results/reason.h"

namespace dettax {
namespace {

std::string bits(const Record& record, const std::string& arm) {
  const ArmEvidence* evidence = find_evidence(record, arm);
  if (evidence == nullptr) return "none";
  std::string words;
  for (const ScopeEvidence& scope : evidence->scopes) {
    if (!scope.tested) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", scope.scope,
                         scope.equal ? "equal" : "**differ**");
  }
  return words.empty() ? "none" : words;
}

void write_row(std::ostream& out, const Record& record, const Tax* tax) {
  out << fmt::format("| {} | {} ", to_string(record.verdict.status), markdown_text(record.case_id));
  if (tax == nullptr) {
    out << "| | none | | | |\n";
    return;
  }
  const Estimate& ratio = tax->overhead_ratio;
  const bool shown = has_value(tax_state(record, *tax));
  out << fmt::format(
      "| {} | {} | {} | {} | {} |\n", markdown_text(tax->arm),
      markdown_text(tax_words(record, *tax)),
      shown ? markdown_text(interval(ratio)) + fmt::format(", n = {}", ratio.count) : "",
      markdown_text(percent(tax->min_detectable_overhead_ratio)), bits(record, tax->arm));
}

void write_list(std::ostream& out, const char* title, const std::vector<const Record*>& records,
                std::vector<std::string> (*lines)(const Record&)) {
  bool any = false;
  for (const Record* record : records) {
    for (const std::string& line : lines(*record)) {
      if (!any) out << "\n### " << title << "\n\n";
      any = true;
      out << "- **" << markdown_text(record->case_id) << "**: " << markdown_text(line) << "\n";
    }
  }
}

void write_grid_rows(std::ostream& out, const Grid& grid) {
  out << '\n';
  bool header = true;
  for (const std::vector<Grid::Cell>& row : grid.rows()) {
    for (const Grid::Cell& cell : row) out << "| " << markdown_text(cell.text) << ' ';
    out << "|\n";
    if (!header) continue;
    header = false;
    for (size_t i = 0; i < row.size(); ++i) out << (i < grid.left_columns() ? "|---" : "|--:");
    out << "|\n";
  }
}

void write_projections(std::ostream& out, const std::vector<ProjectedStep>& projections) {
  out << "\n### Projection\n\nSimulated, not measured; P10 to P90 over draws of what the "
         "operations may cost.\n";
  write_grid_rows(out, projection_grid(projections));
}

void write_decision(std::ostream& out, const DecisionOutlook& outlook) {
  out << "\n### Does it pay?\n\n";
  if (outlook.sizes.empty()) {
    out << markdown_text(outlook.decision.sentence) << '\n';
    write_grid_rows(out, policy_grid(outlook.decision));
    write_grid_rows(out, threshold_grid(outlook.decision));
    write_grid_rows(out, tornado_grid(outlook.decision));
  } else {
    out << "By number of GPUs, since none was given.\n";
    write_grid_rows(out, size_grid(outlook.sizes));
  }
  out << '\n';
  for (const std::string& words : decision_words(outlook))
    out << "- " << markdown_text(words) << '\n';
}

void write_outlook(std::ostream& out, const Outlook& outlook) {
  if (!outlook.projections.empty()) write_projections(out, outlook.projections);
  if (outlook.decision) write_decision(out, *outlook.decision);
}

std::vector<std::string> reason(const Record& record) { return {record.verdict.reason}; }

}  // namespace

void write_markdown(std::ostream& out, const std::vector<Record>& records,
                    const ExportSettings& settings) {
  if (settings.outlook != nullptr && records.empty()) {
    out << "## dettax: what is to be expected\n";
    return write_outlook(out, *settings.outlook);
  }
  const ExitCode code = combined_exit_code(records);
  const std::vector<const Record*> order = by_severity(records);
  out << "## dettax: " << markdown_text(meaning(code)) << "\n\n"
      << verdict_counts(records) << ", exit code " << static_cast<int>(code) << ".\n";
  if (const Record* ran = first_that_ran(records); ran != nullptr) {
    const Environment& e = ran->environment;
    out << "\n"
        << markdown_text(fmt::format("Run {}, suite {}, {}, on {} ({}), commit {}", ran->run_id,
                                     ran->suite, e.started_at, e.host, e.cpu_model, e.git_commit))
        << ".\n";
  }
  if (records.empty()) return;
  out << "\n| verdict | case | arm | tax | interval | detectable | bits |\n"
         "|---|---|---|--:|--:|--:|---|\n";
  for (const Record* record : order) {
    for (const Tax& tax : record->taxes) write_row(out, *record, &tax);
    if (record->taxes.empty()) write_row(out, *record, nullptr);
  }
  write_list(out, "Why", order, reason);
  write_list(out, "What qualifies the numbers", order, caveats);
  write_list(out, "What was not shown", order, not_shown);
  if (settings.outlook != nullptr) write_outlook(out, *settings.outlook);
}

}  // namespace dettax
