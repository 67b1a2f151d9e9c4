#include "exporters/table.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include <fmt/format.h>

#include "exporters/cause_tables.h"
#include "exporters/mode_words.h"
#include "exporters/report_order.h"
#include "exporters/text_layout.h"
#include "exporters/words.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/plan/crowding.h"
#include "results/reason.h"

namespace dettax {
namespace {

using Cell = Grid::Cell;

std::vector<Cell> header(std::initializer_list<const char*> names) {
  std::vector<Cell> row;
  for (const char* name : names) row.push_back({name, Colour::dim});
  return row;
}

// --- parts of a case's block -----------------------------------------------------------------------------------------------------

class CaseBlock {
 public:
  CaseBlock(std::ostream& out, const Record& record, const TableStyle& style)
      : out_(out), record_(record), style_(style) {}

  void write() {
    head();
    injections();
    failures();
    for (const std::string& words : changed_variant_words(record_)) line(words);
    taxes();
    for (const std::string& words : contrast_words(record_)) line(words);
    arms();
    for (const std::string& words : environment_words(record_)) line(words);
    evidence();
    for (const ArmProfile& profile : record_.profiles) causes(profile);
    if (record_.ablation) causes(*record_.ablation);
    warnings();
    out_ << "\n";
  }

 private:
  size_t width() const { return columns(style_); }
  // A mark in the margin tells bad news from the rest without colour.
  void line(const std::string& text, const char* mark = " ", Colour colour = Colour::none) {
    std::ostringstream wrapped;
    write_wrapped(wrapped, text, kIndent, width());
    std::string lines = wrapped.str();
    lines.replace(0, 1, mark);
    lines.pop_back();
    out_ << paint(lines, colour, style_.colour) << "\n";
  }
  void grid(const Grid& rows) {
    out_ << "\n";
    rows.write(out_, kIndent, style_.colour);
  }

  void head() {
    const Verdict& verdict = record_.verdict;
    out_ << paint(upper(to_string(verdict.status)),
                  colour_of(static_cast<ExitCode>(verdict.exit_code)), style_.colour)
         << "  " << paint(record_.case_id, Colour::bold, style_.colour)
         << paint("  (" + verdict.reason_code + ")", Colour::dim, style_.colour) << "\n";
    line(verdict.reason);
    if (!record_.precision_note.empty()) line("precision: " + record_.precision_note);
    if (ran()) conditions();
  }

  bool ran() const {
    return std::any_of(record_.arms.begin(), record_.arms.end(),
                       [](const ArmResult& arm) { return arm.step_time_seconds.has_value(); });
  }

  // What the step times stand for.
  void conditions() {
    const Model& model = record_.planned.model;
    if (model.layers < model.published_layers)
      line(fmt::format("proxy: {} of the {} layers of {} ran", model.layers, model.published_layers,
                       model.name));
    topology();
    const std::string crowd = oversubscription(on_this_node(), record_.environment.cores);
    if (!crowd.empty()) line(crowd);
  }

  const std::string& engaged(const char* what) const {
    static const std::string nothing;
    for (const ArmResult& arm : record_.arms) {
      const auto found = arm.engaged.find(what);
      if (found != arm.engaged.end()) return found->second;
    }
    return nothing;
  }

  // Nodes and links that are not there.
  void topology() {
    std::vector<std::string> emulated;
    if (engaged("nodes").find("emulated") != std::string::npos)
      emulated.push_back("nodes " + engaged("nodes"));
    if (!engaged("links").empty()) emulated.push_back("links " + engaged("links"));
    if (!emulated.empty()) line("topology: " + join(emulated, "; "));
  }

  // Threads of one process share its node, whatever nodes they stand for.
  Case on_this_node() const {
    const Case& planned = record_.planned;
    return engaged("launcher") == "threads" ? all_on_one_node(planned) : planned;
  }

  void injections() {
    for (const Injection& fault : record_.planned.injections) {
      line(fmt::format(
               "fault put in on purpose: {}{} in {}, so these are no numbers of this machine",
               fault.kind, fault.kind == "slow" ? " by " + format_percent(fault.ratio) : "",
               fault.arm.empty() ? "every arm" : fault.arm),
           "!", Colour::yellow);
    }
  }

  // The verdict may have said it already.
  bool said(const std::string& text) const {
    return record_.verdict.reason.find(text) != std::string::npos;
  }

  void failures() {
    for (const ArmResult& arm : record_.arms) {
      if (!arm.failure_code.empty() && !said(arm.failure))
        line(fmt::format("{}: {} ({})", arm.arm, arm.failure, arm.failure_code), "!", Colour::red);
    }
  }

  // What stands in place of a tax that is none.
  std::vector<Cell> no_tax(const Tax& tax) const {
    if (!record_.precision_note.empty()) return {{"void", Colour::red}, {"emulated"}};
    if (!claims(record_, tax.arm)) return {{"none", Colour::dim}, {"claims nothing"}};
    return {{"void", Colour::red}, {"no evidence"}};
  }

  void taxes() {
    if (record_.taxes.empty()) return;
    Grid rows(1);
    rows.add(header({"tax", "", "interval", "rounds", "detectable", "control / fast"}));
    for (const Tax& tax : record_.taxes) {
      const Estimate& ratio = tax.overhead_ratio;
      const std::string control = tax.control_ratio ? interval(*tax.control_ratio) : "not measured";
      std::vector<Cell> row{{tax.arm}};
      for (const Cell& cell :
           tax.published
               ? std::vector<Cell>{{percent(ratio.value), Colour::bold}, {interval(ratio)}}
               : no_tax(tax))
        row.push_back(cell);
      row.push_back({"n = " + std::to_string(ratio.count)});
      row.push_back({percent(tax.min_detectable_overhead_ratio)});
      row.push_back({control});
      rows.add(row);
    }
    grid(rows);
    if (taxes_beside_medians())
      line(
          "taxes pair blocks that ran side by side, step times are medians of all: one bad round "
          "moves the one more than the other");
  }

  // Whether a reader who divides the step times gets another tax.
  bool taxes_beside_medians() const {
    constexpr double kFar = 0.03;
    const ArmResult* fast = find_arm(record_, "fast");
    if (fast == nullptr || !fast->step_time_seconds) return false;
    return std::any_of(record_.taxes.begin(), record_.taxes.end(), [&](const Tax& tax) {
      const ArmResult* arm = find_arm(record_, tax.arm);
      if (!tax.published || arm == nullptr || !arm->step_time_seconds) return false;
      const double ratio = arm->step_time_seconds->value / fast->step_time_seconds->value;
      return std::abs(ratio - tax.overhead_ratio.value) > kFar;
    });
  }

  void arms() {
    if (record_.arms.empty()) return;
    Grid rows(1);
    rows.add(header({"arm", "step time", "interval", "tokens/s", "memory", "estimate", ""}));
    for (const ArmResult& arm : record_.arms) {
      const auto& time = arm.step_time_seconds;
      rows.add(
          {{arm.arm},
           {time ? known(time->value, format_seconds) : "none"},
           {time ? time_interval(*time) : ""},
           {time ? known(arm.tokens_per_second, format_count) : ""},
           {arm.memory_peak_bytes > 0 ? format_bytes(static_cast<double>(arm.memory_peak_bytes))
                                      : "unknown"},
           {arm.memory_estimate_bytes > 0
                ? format_bytes(static_cast<double>(arm.memory_estimate_bytes))
                : "none"},
           {memory_against_estimate(arm)}});
    }
    grid(rows);
  }

  static std::string known(double value, std::string (*format)(double)) {
    return std::isfinite(value) ? format(value) : "unknown";
  }

  static std::string memory_against_estimate(const ArmResult& arm) {
    // An arm that broke had perhaps not touched all of it.
    if (!arm.failure_code.empty() || arm.memory_peak_bytes <= 0 || arm.memory_estimate_bytes <= 0)
      return "";
    return format_signed_percent(static_cast<double>(arm.memory_peak_bytes) /
                                     static_cast<double>(arm.memory_estimate_bytes) -
                                 1);
  }

  void evidence() {
    const Evidence& evidence = record_.evidence;
    if (evidence.arms.empty()) return;
    evidence_grid(evidence);
    for (const ArmEvidence& arm : evidence.arms) {
      if (arm.arm != "control") first_differences(arm);
    }
    line(evidence.fast_differed ? "fast did differ, so this case can show a difference"
                                : evidence.blindness,
         evidence.fast_differed ? " " : "!",
         evidence.fast_differed ? Colour::none : Colour::yellow);
    controls(evidence.controls);
  }

  // Each ordering knob weakened alone.
  void controls(const std::vector<KnobControl>& all) {
    if (all.empty()) return;
    const bool bad = std::any_of(all.begin(), all.end(), [](const KnobControl& control) {
      return control.status == ControlStatus::misplaced;
    });
    line("controls " + control_words(all), bad ? "!" : " ", bad ? Colour::yellow : Colour::none);
  }

  void evidence_grid(const Evidence& evidence) {
    std::vector<std::string> scopes;  // in order of appearance
    for (const ArmEvidence& arm : evidence.arms) {
      for (const ScopeEvidence& scope : arm.scopes) {
        if (std::find(scopes.begin(), scopes.end(), scope.scope) == scopes.end())
          scopes.push_back(scope.scope);
      }
    }
    Grid rows(1);
    std::vector<Cell> names = header({"bits"});
    for (const std::string& scope : scopes) names.push_back({scope, Colour::dim});
    names.push_back({"fingerprints", Colour::dim});
    rows.add(names);
    for (const ArmEvidence& arm : evidence.arms) rows.add(evidence_row(arm, scopes));
    grid(rows);
  }

  std::vector<Cell> evidence_row(const ArmEvidence& arm,
                                 const std::vector<std::string>& scopes) const {
    const bool may_differ = !claims(record_, arm.arm);
    std::vector<Cell> row{{arm.arm}};
    int64_t compared = 0;
    for (const std::string& name : scopes) {
      const auto scope = std::find_if(arm.scopes.begin(), arm.scopes.end(),
                                      [&](const ScopeEvidence& one) { return one.scope == name; });
      if (scope == arm.scopes.end() || !scope->tested) {
        row.push_back({scope == arm.scopes.end() ? "-" : "not tested", Colour::dim});
        continue;
      }
      compared += scope->compared;
      const Colour colour = scope->equal ? Colour::green : may_differ ? Colour::none : Colour::red;
      row.push_back({fmt::format("{} runs {}", scope->runs,
                                 scope->equal ? "equal"
                                 : may_differ ? "differ"
                                              : "DIFFER"),
                     colour});
    }
    row.push_back({std::to_string(compared)});
    return row;
  }

  void first_differences(const ArmEvidence& arm) {
    for (const ScopeEvidence& scope : arm.scopes) {
      if (!scope.tested || scope.equal || said(scope.first_difference)) continue;
      const bool bad = claims(record_, arm.arm);
      line(fmt::format("{}, {}: {}", arm.arm, scope.scope, scope.first_difference), bad ? "!" : " ",
           bad ? Colour::red : Colour::dim);
    }
  }

  void causes(const ArmProfile& profile) {
    if (profile.refusal.empty()) {
      grid(mechanism_grid(profile));
      grid(path_grid(profile));
    }
    for (const std::string& words : profile_words(profile)) line(words);
  }

  void causes(const Ablation& ablation) {
    if (ablation.refusal.empty()) {
      grid(ablation_grid(ablation));
      const ArmResult* fast = find_arm(record_, "fast");
      if (fast != nullptr && fast->step_time_seconds)
        grid(waterfall_grid(ablation, fast->step_time_seconds->value));
    }
    for (const std::string& words : ablation_words(ablation)) line(words);
  }

  // Every arm has the same fast arm, so the same words may stand in several taxes.
  void warnings() {
    std::vector<std::string> said;
    for (const Tax& tax : record_.taxes) {
      for (const std::string& warning : tax.warnings) {
        if (std::find(said.begin(), said.end(), warning) != said.end()) continue;
        said.push_back(warning);
        line(warning, "!", Colour::yellow);
      }
    }
  }

  std::ostream& out_;
  const Record& record_;
  const TableStyle& style_;
};

void write_machine(std::ostream& out, const Record& record, const TableStyle& style) {
  const Environment& e = record.environment;
  out << paint("dettax " + e.tool_version, Colour::bold, style.colour) << "  suite " << record.suite
      << ", " << e.started_at << "\n";
  std::ostringstream machine;
  write_wrapped(machine,
                fmt::format("{}: {}, {} cores, {}, {}, {}, {} {}, commit {}", e.host, e.cpu_model,
                            e.cores, format_bytes(static_cast<double>(e.memory_bytes)), e.kernel,
                            e.simd_target, e.compiler, e.build_type, e.git_commit),
                0, columns(style));
  std::string lines = machine.str();
  lines.pop_back();
  out << paint(lines, Colour::dim, style.colour) << "\n\n";
}

// A pass says less where no difference could have been seen.
std::string blind_words(const std::vector<Record>& records) {
  const auto passed = [](const Record& r) { return r.verdict.status == Status::pass; };
  const auto all = std::count_if(records.begin(), records.end(), passed);
  const auto blind = std::count_if(records.begin(), records.end(), [&](const Record& r) {
    return passed(r) && !r.evidence.fast_differed;
  });
  if (blind == 0) return "";
  return fmt::format(
      "; in {} of the {} that pass fast repeated its bits too, so that they prove nothing of the "
      "mode",
      blind, all);
}

}  // namespace

void write_table(std::ostream& out, const std::vector<Record>& records, const TableStyle& style) {
  // A case that was not run says nothing of the machine.
  const Record* ran = first_that_ran(records);
  if (ran != nullptr) write_machine(out, *ran, style);
  for (const Record* record : by_severity(records)) CaseBlock(out, *record, style).write();
  write_wrapped(out,
                verdict_counts(records) + blind_words(records) +
                    (records.empty() ? "" : "; run folder " + records.front().run_id),
                0, columns(style));
  write_exit_code(out, combined_exit_code(records), style);
}

}  // namespace dettax
