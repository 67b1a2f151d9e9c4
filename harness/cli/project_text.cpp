#include "harness/cli/project_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

void write_step(std::ostream& out, const char* arm, const Projection& p) {
  out << fmt::format("  {:<14} {:>9} a step  {:>9} tokens/s  MFU {:>6}  memory {:>9}\n", arm,
                     format_seconds(p.step_seconds), format_count(p.tokens_per_second),
                     format_percent(p.mfu_ratio), format_bytes(p.memory.total()));
}

void write_parts(std::ostream& out, const Projection& p) {
  const std::pair<const char*, double> parts[] = {{"passes", p.compute},
                                                  {"bubble", p.bubble},
                                                  {"gradients behind", p.reduce_tail},
                                                  {"weights awaited", p.gather_wait},
                                                  {"optimizer", p.optimizer},
                                                  {"host", p.host},
                                                  {"slowest rank", p.slowest_rank},
                                                  {"noise", p.jitter}};
  std::vector<std::string> texts;
  for (const auto& [name, seconds] : parts) {
    if (seconds > 0.0005 * p.step_seconds)
      texts.push_back(fmt::format("{} {}", name, format_percent(seconds / p.step_seconds)));
  }
  out << "  fast step: " << join(texts, ", ") << "\n";
}

void write_case(std::ostream& out, const Hardware& machine, const ProjectedCase& one) {
  const ProjectedTax& tax = one.tax;
  out << fmt::format("{} {} on {} x {} ({}), {}, batch {} x {} tokens, micro-batch {}\n",
                     one.plan.model.name, to_string(one.plan.precision), one.plan.ranks(),
                     machine.device, machine.name, plan_layout_text(one.plan),
                     one.plan.batch.global, one.plan.batch.sequence_length, one.plan.batch.micro);
  write_step(out, "fast", tax.fast);
  write_step(out, one.mode.c_str(), tax.deterministic);
  write_parts(out, tax.fast);
  out << fmt::format(
      "  tax {} typically, {} to {} (P10 to P90 of {} draws of what the operations may cost)\n",
      format_signed_percent(tax.typical), format_signed_percent(tax.p10),
      format_signed_percent(tax.p90), tax.draws);
  for (const CausePart& part : tax.parts) {
    if (std::abs(part.ratio) < 5e-5) continue;  // nothing of it in this model
    out << fmt::format("    {:<16} {:>8}  {}\n", part.cause.name,
                       format_signed_percent(part.ratio, 2), part_word(part.cause.part));
  }
  out << fmt::format("    {:<16} {:>8}\n", "interaction",
                     format_signed_percent(tax.interaction, 2));
  if (tax.fast.memory.total() > machine.memory_bytes) {
    out << fmt::format("  does not fit: {} are needed and {} has {}\n",
                       format_bytes(tax.fast.memory.total()), machine.device,
                       format_bytes(machine.memory_bytes));
  }
}

std::string error_row(const GroupError& g) {
  return fmt::format("  {:<41} {:>5} {:>8} {:<4} {:>8} {:>8}   {} {}\n", g.group, g.rows,
                     format_percent(g.errors.mean_absolute), g.within_limit() ? "" : "over",
                     format_percent(g.errors.median_absolute), format_signed_percent(g.errors.bias),
                     format_signed_percent(g.worst.error_ratio()),
                     fmt::format("row {}: {}", g.worst.row.row, g.worst.row.label));
}

}  // namespace

void write_projections(std::ostream& out, const Hardware& machine,
                       const std::vector<ProjectedCase>& cases) {
  out << "Simulated, not measured. dettax project --validate says how far such numbers were off.\n";
  if (cases.size() == 1) {
    write_case(out, machine, cases.front());
    return;
  }
  out << fmt::format("  {:>7}  {:<28} {:>10} {:>11} {:>7}  {:>7} {:>18}\n", "GPUs", "layout",
                     "step", "tokens/s", "MFU", "tax", "P10 to P90");
  for (const ProjectedCase& one : cases) {
    out << fmt::format("  {:>7}  {:<28} {:>10} {:>11} {:>7}  {:>7} {:>18}\n", one.plan.ranks(),
                       plan_layout_text(one.plan), format_seconds(one.tax.fast.step_seconds),
                       format_count(one.tax.fast.tokens_per_second),
                       format_percent(one.tax.fast.mfu_ratio),
                       format_signed_percent(one.tax.typical),
                       fmt::format("{} to {}", format_signed_percent(one.tax.p10),
                                   format_signed_percent(one.tax.p90)));
  }
}

void write_sweep(std::ostream& out, const Hardware& machine, const Sweep& sweep) {
  constexpr size_t kShown = 15;
  const auto fitting = static_cast<size_t>(std::count_if(
      sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& row) { return row.fits; }));
  out << fmt::format(
      "Simulated, not measured: {} layouts, {} cannot be cut like that, {} do not fit into {} of "
      "{}\n",
      sweep.tried, sweep.impossible, sweep.rows.size() - fitting,
      format_bytes(machine.memory_bytes), machine.device);
  out << "Without noise and tax: dettax project of one layout has both, and a longer step.\n";
  out << fmt::format("  {:<34} {:>5} {:>10} {:>11} {:>7} {:>7} {:>10}\n", "layout", "micro", "step",
                     "tokens/s", "MFU", "bubble", "memory");
  for (size_t i = 0; i < std::min(kShown, fitting); ++i) {
    const SweepRow& row = sweep.rows[i];
    const Projection& p = row.projection;
    out << fmt::format("  {:<34} {:>5} {:>10} {:>11} {:>7} {:>7} {:>10}\n",
                       plan_layout_text(row.plan), row.plan.batch.micro,
                       format_seconds(p.step_seconds), format_count(p.tokens_per_second),
                       format_percent(p.mfu_ratio), format_percent(p.bubble / p.step_seconds),
                       format_bytes(p.memory.total()));
  }
  if (fitting == 0) out << "  nothing fits\n";
  if (fitting > kShown)
    out << fmt::format("  and {} more; --json FILE writes all\n", fitting - kShown);
}

void write_validation(std::ostream& out, const Validation& v) {
  out << "Published step times against simulated ones. Judged are only rows that took no part in "
         "the fit.\n";
  out << fmt::format("  {:<41} {:>5} {:>8} {:<4} {:>8} {:>8}   {}\n", "table / system", "rows",
                     "mean |e|", "", "median", "bias", "worst");
  for (const bool fitted : {true, false}) {
    const GroupError& all = fitted ? v.fitted : v.foreign;
    out << fmt::format(
        "{}, limit {}\n",
        fitted ? "systems of which rows took part in the fit" : "systems that took no part",
        format_percent(all.limit(), 0));
    for (const GroupError& g : v.groups) {
      if (g.system_fitted == fitted) out << error_row(g);
    }
    out << error_row(all);
  }
  out << fmt::format("within the limit: {} of {}; docs/projection.md says why others are over it\n",
                     v.within_limit(),
                     format_things(static_cast<int64_t>(v.groups.size()), "table"));
  out << fmt::format("calibration: {} rows, never judged\n", v.calibration.size());
  for (const Judged& j : v.calibration) {
    out << fmt::format("  {:<21} row {:<4} {:>8}  {}\n", j.row.table, j.row.row,
                       format_signed_percent(j.error_ratio()), j.row.label);
  }
  std::map<std::string, int> reasons;
  for (const PublishedRow& row : v.left_out) ++reasons[row.table + ": " + row.left_out];
  out << fmt::format("left out: {}\n",
                     format_things(static_cast<int64_t>(v.left_out.size()), "row"));
  for (const auto& [reason, count] : reasons) out << fmt::format("  {} x {}\n", count, reason);
}

void write_prediction(std::ostream& out, const Hardware& machine, const LayoutPrediction& p) {
  constexpr double kLoud = 0.05;  // a measurement that says little
  const auto rows = [&](const char* title, const std::vector<PredictedLayout>& all) {
    out << title << '\n';
    for (const PredictedLayout& row : all) {
      const Estimate& measured = row.measured.step_seconds;
      const double load = row.measured.other_load_ratio;
      out << fmt::format(
          "  {:<44} {:>9} {:<22} {:>9} {:>8}{}\n", row.measured.name,
          format_seconds(measured.value),
          fmt::format("({} to {})", format_seconds(measured.low), format_seconds(measured.high)),
          format_seconds(row.predicted_seconds), format_signed_percent(row.error_ratio()),
          load > kLoud ? fmt::format("  others took {} of the CPU", format_percent(load, 0)) : "");
    }
  };
  out << fmt::format(
      "Step times predicted for {} ({}) against measured ones: case, measured with "
      "its interval, predicted, error\n",
      machine.name, machine.device);
  rows("calibration, never judged", p.calibration);
  std::vector<std::string> values;
  for (const auto& [key, value] : fitted_values(p))
    values.push_back(fmt::format("{} {:.4g}", key, value));
  out << "  fitted: " << join(values, ", ") << '\n';
  if (const auto bounds = fitted_at_bounds(p); !bounds.empty())
    out << "  at the bounds of what is allowed, so not found by the fit: " << join(bounds, ", ")
        << '\n';
  rows("judged, no part of the fit", p.judged);
  out << fmt::format("mean absolute error {} over {}, median {}, bias {}, worst {} ({})\n",
                     format_percent(p.errors.mean_absolute),
                     format_things(static_cast<int64_t>(p.judged.size()), "layout"),
                     format_percent(p.errors.median_absolute), format_signed_percent(p.errors.bias),
                     format_signed_percent(p.judged[p.errors.worst].error_ratio()),
                     p.judged[p.errors.worst].measured.name);
}

void write_fit(std::ostream& out, const Fit& fit) {
  out << fmt::format("# mean absolute error on the calibration rows {}, {} projections\n",
                     format_percent(fit.mean_absolute, 2), fit.projections);
  for (const auto& [generation, keys] : fit.calibration) {
    out << generation << ":\n";
    for (const auto& [key, value] : keys) out << fmt::format("  {}: {:.6g}\n", key, value);
  }
}

}  // namespace dettax
