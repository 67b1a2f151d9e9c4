#include "exporters/html/outlook_section.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "exporters/html/markup.h"
#include "harness/base/format.h"

namespace dettax {
namespace {

constexpr int kCurvePoints = 41;

void write_chart(std::ostream& out, const char* chart) {
  out << "<div class=\"chart\" data-chart=\"" << chart << "\"></div>\n";
}

void write_projections(std::ostream& out, const std::vector<ProjectedStep>& projections) {
  out << "<section id=\"projection\">\n<h2>Projection</h2>\n";
  write_element(out, "p",
                "Simulated, not measured: the tax with every factor at its median, and P10 to P90 "
                "over draws of what the operations may cost. dettax project --validate says how "
                "far such step times were off.",
                "dim");
  write_chart(out, "projected");
  write_grid(out, projection_grid(projections));
  for (const ProjectedStep& projection : projections) {
    out << (projections.size() == 1 ? "<details open>\n" : "<details>\n");
    write_element(out, "summary", "what the tax is made of: " + projection.name());
    out << "<div>\n";
    write_grid(out, projected_cause_grid(projection));
    out << "</div>\n</details>\n";
  }
  out << "</section>\n";
}

void write_answer(std::ostream& out, const Decision& decision) {
  write_element(out, "p", decision.sentence, "strong");
  write_element(out, "p",
                "Expected cost of each policy, the mean over the draws, as the tax grows.", "dim");
  write_chart(out, "costs");
  write_grid(out, policy_grid(decision));
  write_grid(out, threshold_grid(decision));
  if (decision.tornado.empty()) return;
  write_element(out, "h3", "What decides");
  write_element(out, "p",
                "What always saves against never, as one input goes from one end of its band to "
                "the other.",
                "dim");
  write_chart(out, "tornado");
  write_grid(out, tornado_grid(decision));
}

void write_decision(std::ostream& out, const DecisionOutlook& outlook) {
  out << "<section id=\"decision\">\n<h2>Does it pay?</h2>\n";
  if (outlook.sizes.empty()) {
    write_answer(out, outlook.decision);
  } else {
    write_element(out, "p", "By number of GPUs, since none was given.");
    write_grid(out, size_grid(outlook.sizes));
  }
  write_items(out, decision_words(outlook));
  write_element(out, "h3", "Inputs");
  write_grid(out, input_grid(outlook.inputs));
  out << "</section>\n";
}

void write_projected(JsonWriter& json, const std::vector<ProjectedStep>& projections) {
  json.key("projections").begin_array();
  for (const ProjectedStep& p : projections) {
    json.begin_object();
    json.member("name", fmt::format("{} x {}, {} {}", p.gpus, p.device, p.model, p.layout));
    json.key("value").number(p.tax);
    json.key("low").number(p.p10);
    json.key("high").number(p.p90);
    json.member("words", format_signed_percent(p.tax));
    json.end_object();
  }
  json.end_array();
}

void write_mark(JsonWriter& json, const char* key, double value, double low, double high) {
  json.key(key).begin_object();
  json.key("value").number(value);
  json.key("low").number(low);
  json.key("high").number(high);
  json.end_object();
}

void write_costs(JsonWriter& json, const DecisionOutlook& outlook) {
  const Decision& d = outlook.decision;
  json.key("costs").begin_object();
  json.key("points").begin_array();
  for (const CostPoint& point : costs_by_tax(outlook.inputs, d, kCurvePoints)) {
    json.begin_object();
    json.key("tax").number(point.overhead_ratio);
    for (const Policy policy : kPolicies)
      json.key(to_string(policy)).number(point.cost[index_of(policy)]);
    json.end_object();
  }
  json.end_array();
  const DecisionInput& tax = outlook.inputs.named("overhead_ratio");
  if (!outlook.inputs.tax_unresolved) write_mark(json, "tax", tax.value, tax.low, tax.high);
  write_mark(json, "break_even", d.break_even, d.break_even_band.p10, d.break_even_band.p90);
  if (d.cheapest) {
    const KnobSubset& subset = d.cheapest->subset;
    write_mark(json, "cheapest", subset.value, subset.low, subset.high);
  }
  json.end_object();
}

void write_tornado(JsonWriter& json, const Decision& d) {
  json.key("saved").number(d.cost[index_of(Policy::never)] - d.cost[index_of(Policy::always)]);
  json.key("tornado").begin_array();
  for (size_t i = 0; i < std::min(kTornadoRows, d.tornado.size()); ++i) {
    const Sensitivity& s = d.tornado[i];
    json.begin_object();
    json.member("name", s.input);
    json.key("from").number(s.advantage_low);
    json.key("to").number(s.advantage_high);
    json.member("words", fmt::format("{:.3g} to {:.3g}", s.low, s.high));
    json.end_object();
  }
  json.end_array();
}

}  // namespace

void write_outlook_sections(std::ostream& out, const Outlook& outlook) {
  if (!outlook.projections.empty()) write_projections(out, outlook.projections);
  if (outlook.decision) write_decision(out, *outlook.decision);
}

void write_outlook_data(JsonWriter& json, const Outlook& outlook) {
  json.key("outlook").begin_object();
  write_projected(json, outlook.projections);
  if (outlook.decision && outlook.decision->sizes.empty()) {
    write_costs(json, *outlook.decision);
    write_tornado(json, outlook.decision->decision);
  }
  json.end_object();
}

}  // namespace dettax
