#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exporters/outlook.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr double kLooksLikeARatio = 0.9;  // of a record; few taxes reach it

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string range(const std::string& low, const std::string& high) {
  return fmt::format("{} to {}", low, high);
}

Grid with_header(size_t left_columns, const std::vector<std::string>& names) {
  Grid grid(left_columns);
  std::vector<Grid::Cell> header;
  for (const std::string& name : names) header.push_back({name, Colour::dim});
  grid.add(std::move(header));
  return grid;
}

template <class Answer>
void add_policies(Grid& grid, const Answer& answer, const std::string& behind) {
  for (const Policy policy : kPolicies) {
    const size_t i = index_of(policy);
    const Band& band = answer.cost_band[i];
    grid.add({{to_string(policy) + behind, policy == answer.best ? Colour::bold : Colour::none},
              {format_money(answer.cost[i])},
              {range(format_money(band.p10), format_money(band.p90))},
              {format_percent(answer.probability[i], 0)},
              {format_money(answer.central_cost[i])}});
  }
}

std::string policies_between(const Sensitivity& s) {
  return s.best_low == s.best_high
             ? to_string(s.best_low)
             : fmt::format("{} -> {}", to_string(s.best_low), to_string(s.best_high));
}

}  // namespace

std::string format_money(double amount) {
  return (amount < 0 ? "-$" : "$") + format_count(std::abs(amount));
}

Grid projection_grid(const std::vector<ProjectedStep>& projections) {
  Grid grid = with_header(3, {"model", "layout", "on", "GPUs", "fast step", "tokens/s", "MFU",
                              "memory", "mode", "tax", "P10 to P90"});
  for (const ProjectedStep& p : projections) {
    const bool fits = p.memory_bytes <= p.device_memory_bytes;
    grid.add({{p.model + " " + p.precision},
              {p.layout},
              {p.device},
              {std::to_string(p.gpus)},
              {format_seconds(p.fast_seconds)},
              {format_count(p.tokens_per_second)},
              {format_percent(p.mfu_ratio)},
              {format_bytes(p.memory_bytes) + (fits ? "" : ", does not fit"),
               fits ? Colour::none : Colour::red},
              {p.mode},
              {format_signed_percent(p.tax)},
              {range(format_signed_percent(p.p10), format_signed_percent(p.p90))}});
  }
  return grid;
}

Grid projected_cause_grid(const ProjectedStep& projection) {
  constexpr double kNothing = 5e-5;
  Grid grid = with_header(2, {"knob", "part", "adds alone"});
  for (const ProjectedCause& cause : projection.causes) {
    if (std::abs(cause.ratio) < kNothing) continue;
    grid.add({{cause.name}, {cause.part}, {format_signed_percent(cause.ratio, 2)}});
  }
  grid.add({{"interaction"}, {""}, {format_signed_percent(projection.interaction, 2)}});
  return grid;
}

Grid policy_grid(const Decision& decision) {
  Grid grid =
      with_header(1, {"policy", "expected", "P10 to P90", "cheapest", "at the central values"});
  add_policies(grid, decision, "");
  if (decision.cheapest) add_policies(grid, *decision.cheapest, ", cheapest knobs");
  return grid;
}

Grid threshold_grid(const Decision& d) {
  Grid grid = with_header(1, {"threshold", "value", "P10 to P90"});
  grid.add({{"break-even tax, always against never"},
            {format_percent(d.break_even, 2)},
            {range(format_percent(d.break_even_band.p10, 2),
                   format_percent(d.break_even_band.p90, 2))}});
  if (std::isfinite(d.over_windows))
    grid.add({{"tax up to which always beats windows"}, {format_percent(d.over_windows, 2)}, {""}});
  if (std::isfinite(d.gpus_break_even))
    grid.add(
        {{"GPUs from which always beats never"}, {fmt::format("{:.0f}", d.gpus_break_even)}, {""}});
  grid.add({{"hours between anomalies, all GPUs"}, {number(1 / d.anomalies_per_hour)}, {""}});
  if (std::isfinite(d.window_hazard) && d.window_hazard > 0)
    grid.add({{"hours between anomalies below which a window pays"},
              {number(1 / d.window_hazard)},
              {""}});
  return grid;
}

Grid tornado_grid(const Decision& decision) {
  Grid grid = with_header(1, {"input", "from", "to", "always saves", "to", "cheapest"});
  for (size_t i = 0; i < std::min(kTornadoRows, decision.tornado.size()); ++i) {
    const Sensitivity& s = decision.tornado[i];
    grid.add({{s.input},
              {number(s.low)},
              {number(s.high)},
              {format_money(s.advantage_low)},
              {format_money(s.advantage_high)},
              {policies_between(s)}});
  }
  return grid;
}

Grid size_grid(const std::vector<SizeRow>& sizes) {
  Grid grid = with_header(1, {"GPUs", "break-even tax", "cheapest", "in"});
  for (const SizeRow& row : sizes)
    grid.add({{fmt::format("{:.0f}", row.gpus)},
              {format_percent(row.break_even, 2)},
              {to_string(row.best)},
              {format_percent(row.probability, 0) + " of the draws"}});
  return grid;
}

Grid input_grid(const DecisionInputs& inputs) {
  Grid grid = with_header(4, {"input", "value", "band", "source"});
  for (const DecisionInput& i : inputs.inputs) {
    const std::string given = i.source.empty() ? "given" : "given: " + i.source;
    const bool open = inputs.tax_unresolved && i.name == "overhead_ratio";
    grid.add({{i.name},
              {open ? "" : number(i.value)},
              {range(number(i.low), number(i.high))},
              {i.given ? given : i.source}});
  }
  return grid;
}

std::vector<std::string> decision_words(const DecisionOutlook& outlook) {
  std::vector<std::string> words;
  if (outlook.decision.cheapest) {
    const KnobSubset& subset = outlook.decision.cheapest->subset;
    words.push_back(fmt::format(
        "cheapest knobs that keep the bits equal: {}, tax {} ({} to {}){}; always with these alone "
        "costs {} less",
        subset.knobs.empty() ? "none" : join(subset.knobs, ", "),
        format_signed_percent(subset.value), format_signed_percent(subset.low),
        format_signed_percent(subset.high), subset.source.empty() ? "" : " by " + subset.source,
        format_money(outlook.decision.cheapest->saved)));
  } else if (outlook.inputs.cheapest) {
    words.push_back("no cheaper knobs that keep the bits equal are known: " +
                    outlook.inputs.cheapest->refusal);
  }
  const DecisionInput& tax = outlook.inputs.named("overhead_ratio");
  if (outlook.inputs.tax_unresolved)
    words.push_back(
        fmt::format("the run did not resolve its tax: only the interval is taken, {}",
                    range(format_signed_percent(tax.low), format_signed_percent(tax.high))));
  if (tax.given && tax.value >= kLooksLikeARatio)
    words.push_back(fmt::format(
        "overhead_ratio={0} is taken as a tax of {1}; if it is the ratio of a record, in which 1 "
        "is "
        "no cost, give what is above 1: {2}",
        number(tax.value), format_signed_percent(tax.value), number(std::max(0.0, tax.value - 1))));
  const std::vector<std::string> missing = outlook.inputs.missing();
  if (!missing.empty())
    words.push_back(fmt::format("asked for, since nobody but you has it: {} (-C {}=...)",
                                join(missing, ", "), missing.front()));
  return words;
}

}  // namespace dettax
