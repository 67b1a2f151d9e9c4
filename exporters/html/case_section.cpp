#include "exporters/html/case_section.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/html/causes_section.h"
#include "exporters/html/chart_data.h"
#include "exporters/html/kernels_section.h"
#include "exporters/html/markup.h"
#include "exporters/mode_words.h"
#include "exporters/tax_state.h"
#include "exporters/words.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

std::string known(double value, std::string (*format)(double)) {
  return std::isfinite(value) ? format(value) : "unknown";
}

void write_taxes(std::ostream& out, const Record& record) {
  if (record.taxes.empty()) return;
  HtmlTable table({"tax", " ", " interval", " rounds", " detectable", " control / fast"});
  for (const Tax& tax : record.taxes) {
    const TaxState state = tax_state(record, tax);
    const Estimate& ratio = tax.overhead_ratio;
    table.add({{tax.arm, ""},
               {tax_words(record, tax), state == TaxState::no_evidence ? "differ" : ""},
               {has_interval(state) ? interval(ratio) : "", ""},
               {fmt::format("n = {}", ratio.count), ""},
               {percent(tax.min_detectable_overhead_ratio), ""},
               {tax.control_ratio ? interval(*tax.control_ratio) : "not measured", ""}});
  }
  write_element(out, "h3", "Tax");
  table.write(out);
}

void write_arms(std::ostream& out, const Record& record, size_t place) {
  if (record.arms.empty()) return;
  write_element(out, "h3", "Step time");
  if (has_step_times(record))
    out << "<div class=\"chart\" data-chart=\"steps\" data-case=\"" << place << "\"></div>\n";
  HtmlTable table({"arm", "mode", " step time", " interval", " tokens/s", " memory", "mode hash"});
  for (const ArmResult& arm : record.arms) {
    const auto& time = arm.step_time_seconds;
    table.add({{arm.arm, ""},
               {arm.mode, ""},
               {time ? known(time->value, format_seconds) : "none", ""},
               {time ? time_interval(*time) : "", ""},
               {time ? known(arm.tokens_per_second, format_count) : "", ""},
               {arm.memory_peak_bytes > 0 ? format_bytes(static_cast<double>(arm.memory_peak_bytes))
                                          : "unknown",
                ""},
               {arm.mode_hash, "dim"}});
  }
  table.write(out);
  std::vector<std::string> failures;
  for (const ArmResult& arm : record.arms) {
    if (!arm.failure_code.empty())
      failures.push_back(fmt::format("{}: {} ({})", arm.arm, arm.failure, arm.failure_code));
  }
  write_items(out, failures, "differ");
}

HtmlCell bits_of(const Record& record, const ArmEvidence& arm, const ScopeEvidence& scope) {
  if (!scope.tested) return {"not tested", "dim"};
  if (scope.equal) return {fmt::format("{} runs equal", scope.runs), ""};
  return {fmt::format("{} runs differ", scope.runs), claims(record, arm.arm) ? "differ" : ""};
}

void write_evidence(std::ostream& out, const Record& record) {
  const Evidence& evidence = record.evidence;
  if (evidence.arms.empty()) return;
  write_element(out, "h3", "Evidence");
  HtmlTable table({"arm", "scope", "bits", " fingerprints", "first difference", "cause"});
  for (const ArmEvidence& arm : evidence.arms) {
    for (const ScopeEvidence& scope : arm.scopes) {
      std::string cause = scope.cause;
      if (!scope.advice.empty()) cause += (cause.empty() ? "" : "; ") + scope.advice;
      table.add({{arm.arm, ""},
                 {scope.scope, ""},
                 bits_of(record, arm, scope),
                 {std::to_string(scope.compared), ""},
                 {scope.first_difference, ""},
                 {cause, ""}});
    }
  }
  table.write(out);
  write_element(out, "p",
                evidence.fast_differed ? "fast did differ, so this case can show a difference"
                                       : evidence.blindness,
                evidence.fast_differed ? "dim" : "warning");
  if (const std::string words = control_words(evidence.controls); !words.empty())
    write_element(out, "p", "Knobs weakened one at a time: " + words, "dim");
}

void write_knobs(std::ostream& out, const Record& record) {
  HtmlTable table({"arm", "knob", "fast", "here", "where"});
  for (const ArmResult& arm : record.arms) {
    for (const VariantChange& change : arm.changed) {
      table.add({{arm.arm, ""},
                 {change.knob, ""},
                 {change.fast, ""},
                 {change.here, ""},
                 {join(change.ops, ", "), "dim"}});
    }
  }
  const std::vector<std::string> costs = contrast_words(record);
  if (table.empty() && costs.empty()) return;
  write_element(out, "h3", "Knobs");
  if (!table.empty()) table.write(out);
  write_items(out, costs);
}

// Ranks of all arms by where they ran; arms that ran alike share a line.
void write_places(std::ostream& out, const Record& record) {
  std::vector<std::pair<std::string, std::vector<std::string>>> seen;
  for (const ArmResult& arm : record.arms) {
    std::vector<std::string> ranks;
    for (const RankPlace& place : arm.places)
      ranks.push_back(fmt::format("{} on {}, cores {}{}", place.rank, place.host, place.cores,
                                  place.bound ? ", bound" : ""));
    if (ranks.empty()) continue;
    const std::string words = join(ranks, "; ");
    const auto same =
        std::find_if(seen.begin(), seen.end(), [&](const auto& one) { return one.first == words; });
    if (same == seen.end()) {
      seen.push_back({words, {arm.arm}});
    } else {
      same->second.push_back(arm.arm);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [words, arms] : seen)
    lines.push_back(fmt::format("ranks of {}: {}", join(arms, ", "), words));
  write_items(out, lines, "dim");
}

}  // namespace

void write_case_section(std::ostream& out, const Record& record, size_t place, bool open) {
  const char* status = to_string(record.verdict.status);
  std::vector<std::string> taxes;
  for (const Tax& tax : record.taxes) taxes.push_back(tax.arm + " " + tax_words(record, tax));
  out << "<details id=\"case-" << place << "\"" << (open ? " open" : "")
      << "><summary><span class=\"word " << status << "\">" << upper(status) << "</span> "
      << html_text(record.case_id) << " <span class=\"dim\">" << html_text(join(taxes, "; "))
      << "</span></summary>\n<div>\n";
  write_element(out, "p", record.verdict.reason);
  write_items(out, caveats(record), "warning");
  write_taxes(out, record);
  write_arms(out, record, place);
  write_evidence(out, record);
  write_causes(out, record, place);
  write_knobs(out, record);
  write_kernels(out, record);
  write_places(out, record);
  write_items(out, environment_words(record), "dim");
  out << "</div>\n</details>\n";
}

}  // namespace dettax
