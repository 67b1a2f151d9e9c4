#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/run_path.h"
#include "results/analysis/decision/decision.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr int kDraws = 20000;
constexpr uint64_t kSeed = 1;

// The published taxes of a run as overheads, with the name of the case each belongs to.
struct RunTax {
  std::string name;
  Estimate ratio;
};

std::vector<RunTax> taxes_of(const std::string& run, const std::string& wanted) {
  std::vector<RunTax> found;
  for (const Record& record : RunFolder::open(find_run(run)).records()) {
    for (const Tax& tax : record.taxes) {
      const std::string name = record.planned.id() + "/" + tax.arm;
      if (tax.published && name.find(wanted) != std::string::npos)
        found.push_back({name, tax.overhead_ratio});
    }
  }
  return found;
}

std::vector<Override> from_run(const std::string& run, const std::string& wanted) {
  const std::vector<RunTax> found = taxes_of(run, wanted);
  if (found.empty())
    throw Error(ErrorKind::config, fmt::format("{}: holds no published tax{}", run,
                                               wanted.empty() ? "" : " of \"" + wanted + "\""));
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const RunTax& one : found) names.push_back(one.name);
    throw Error(ErrorKind::usage, fmt::format("{}: holds {} taxes; choose one by --case: {}", run,
                                              found.size(), join(names, ", ")));
  }
  const Estimate& ratio = found.front().ratio;
  // A gain is taken as no cost: what determinism saves is not the question here.
  const auto overhead = [](double r) { return format_number(std::max(0.0, r - 1)); };
  return {Override("overhead_ratio", fmt::format("{{value: {}, low: {}, high: {}, source: \"{}\"}}",
                                                 overhead(ratio.value), overhead(ratio.low),
                                                 overhead(ratio.high), found.front().name))};
}

std::string money(double amount) { return "$" + format_count(amount); }

std::string number(double value) { return fmt::format("{:.4g}", value); }

void write_costs(std::ostream& out, const Decision& d) {
  out << fmt::format("  {:<9} {:>11} {:>22}  {:>8}\n", "policy", "expected", "P10 to P90",
                     "cheapest");
  for (const Policy policy : {Policy::never, Policy::windows, Policy::always}) {
    const auto i = static_cast<size_t>(policy);
    out << fmt::format(
        "  {:<9} {:>11} {:>22}  {:>8}\n", to_string(policy), money(d.cost[i]),
        fmt::format("{} to {}", money(d.cost_band[i].p10), money(d.cost_band[i].p90)),
        format_percent(d.probability[i], 0));
  }
}

void write_thresholds(std::ostream& out, const Decision& d) {
  const Economics& e = d.economics;
  out << fmt::format("  break-even tax, always against never    {} ({} to {})\n",
                     format_percent(d.break_even, 2), format_percent(d.break_even_band.p10, 2),
                     format_percent(d.break_even_band.p90, 2));
  out << fmt::format("  always against windows                  {}\n",
                     format_percent(d.over_windows, 2));
  if (std::isfinite(d.gpus_break_even))
    out << fmt::format("  always beats never from                 {:.0f} GPUs on\n",
                       d.gpus_break_even);
  out << fmt::format("  hours between anomalies, all GPUs       {}\n",
                     number(hours_between_anomalies(e)));
  if (std::isfinite(d.window_hazard))
    out << fmt::format("  a window pays where they come every     {} hours or more often\n",
                       d.window_hazard > 0 ? number(1 / d.window_hazard) : "any number of");
}

void write_tornado(std::ostream& out, const Decision& d) {
  constexpr size_t kShown = 8;
  out << "  what always saves against never, as one input goes from one end of its band to the "
         "other\n";
  for (size_t i = 0; i < std::min(kShown, d.tornado.size()); ++i) {
    const Sensitivity& s = d.tornado[i];
    const std::string best =
        s.best_low == s.best_high
            ? std::string("best: ") + to_string(s.best_low)
            : fmt::format("best: {} -> {}", to_string(s.best_low), to_string(s.best_high));
    out << fmt::format("    {:<33} {:>8} to {:<8} {:>9} to {:<9} {}\n", s.input, number(s.low),
                       number(s.high), format_count(s.advantage_low),
                       format_count(s.advantage_high), best);
  }
}

void write_inputs(std::ostream& out, const DecisionInputs& inputs) {
  out << "  inputs\n";
  for (const DecisionInput& i : inputs.inputs) {
    out << fmt::format("    {:<33} {:>8} ({} to {})  {}\n", i.name, number(i.value), number(i.low),
                       number(i.high),
                       i.given ? (i.source.empty() ? "given" : "given: " + i.source) : i.source);
  }
}

void write_sizes(std::ostream& out, const DecisionInputs& inputs) {
  out << "  by number of GPUs, since none was given\n";
  for (const SizeRow& row : by_size(inputs, kDraws / 10, kSeed)) {
    out << fmt::format("    {:>6.0f}  break-even tax {:>8}  best: {:<8} in {} of the draws\n",
                       row.gpus, format_percent(row.break_even, 2), to_string(row.best),
                       format_percent(row.probability, 0));
  }
}

class DecideCommand : public Command {
 public:
  const char* name() const override { return "decide"; }
  const char* what() const override {
    return "whether determinism pays: always, in windows or never";
  }
  void declare(Options& options) override {
    options.positional("FILE", file_, "inputs as YAML, such as configs/decisions/example.yaml",
                       false);
    options.texts("-C,--set", "KEY=VALUE", settings_,
                  "one input, such as gpus=4096 or overhead_ratio=0.04");
    options.text("--run", "RUN", run_, "takes the tax from a run: its folder, its name or latest");
    options.text("--case", "TEXT", case_, "which of its taxes: a part of case/arm");
    options.text("--json", "FILE", json_, "the result as JSON");
  }
  ExitCode run(const Streams& streams) override {
    std::vector<Override> overrides;
    if (!run_.empty()) overrides = from_run(run_, case_);
    for (const std::string& text : settings_) overrides.push_back(setting(text));
    const DecisionInputs inputs = load_decision_inputs(file_, overrides);
    const Decision decision = decide(inputs, kDraws, kSeed);
    write(streams.out, decision, inputs);
    if (json_.empty()) return ExitCode::pass;
    std::ofstream file(json_, std::ios::binary);
    file << decision_json(decision, inputs);
    if (!file.flush()) throw Error(ErrorKind::infrastructure, json_ + ": cannot be written");
    return ExitCode::pass;
  }

 private:
  static Override setting(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::usage,
                  fmt::format("-C: \"{}\" has no key=value, such as gpus=4096", text));
    return {text.substr(0, equals), text.substr(equals + 1)};
  }

  static void write(std::ostream& out, const Decision& d, const DecisionInputs& inputs) {
    const std::vector<std::string> missing = inputs.missing();
    const bool sizes = std::find(missing.begin(), missing.end(), "gpus") != missing.end();
    if (sizes) {
      write_sizes(out, inputs);
    } else {
      out << d.sentence << "\n";
      write_costs(out, d);
      write_thresholds(out, d);
      write_tornado(out, d);
    }
    write_inputs(out, inputs);
    if (!missing.empty()) {
      out << fmt::format("  asked for, since nobody but you has it: {} (-C {}=...)\n",
                         join(missing, ", "), missing.front());
    }
  }

  std::string file_, run_, case_, json_;
  std::vector<std::string> settings_;
};

}  // namespace

std::unique_ptr<Command> make_decide_command() { return std::make_unique<DecideCommand>(); }

}  // namespace dettax
