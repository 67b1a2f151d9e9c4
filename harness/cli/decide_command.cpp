#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/outlook_options.h"
#include "harness/cli/run_path.h"
#include "harness/cli/run_tax.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr int kDraws = 20000;
constexpr uint64_t kSeed = 1;
constexpr size_t kIndent = 2;

// The one whose name holds `wanted`; Error{usage} that lists the names if there are several.
template <class Named, class Name>
const Named& chosen(const std::vector<Named>& all, const std::string& wanted,
                    const std::string& source, const char* what, Name name) {
  std::vector<const Named*> found;
  for (const Named& one : all) {
    if (name(one).find(wanted) != std::string::npos) found.push_back(&one);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty())
    throw Error(ErrorKind::config, fmt::format("{}: holds no {}{}", source, what,
                                               wanted.empty() ? "" : " of \"" + wanted + "\""));
  std::vector<std::string> names;
  for (const Named* one : found) names.push_back(name(*one));
  throw Error(ErrorKind::usage, fmt::format("{}: has {}; choose one by --case: {}", source,
                                            format_things(static_cast<int64_t>(names.size()), what),
                                            join(names, ", ")));
}

// An overhead with its band as a user would give it.
Override tax_override(double value, double low, double high, const std::string& source) {
  const auto number = [](double overhead) { return yaml_scalar(format_number(overhead)); };
  Yaml node = yaml_map({{"value", number(value)},
                        {"low", number(std::min(low, value))},
                        {"high", number(std::max(high, value))},
                        {"source", yaml_scalar(source, true)}});
  return {"overhead_ratio", std::move(node), "overhead_ratio", source};
}

std::vector<Record> read_records(const std::string& run) {
  if (run.empty()) return {};
  if (run.ends_with(".json")) return {parse_record(read_file(run), run)};
  return open_run(run).records();
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
    options.text("--run", "RUN", run_,
                 "takes the tax from a run, and that of the cheapest knobs if it was made with "
                 "--ablate: its folder, its name, latest, or the file of one case");
    options.text("--projection", "FILE", projection_,
                 "takes tax and number of GPUs from a file of dettax project --json");
    options.text("--case", "TEXT", case_, "which of their taxes: a part of its name");
    declare_outlook_files(options, files_);
  }
  ExitCode run(const Streams& streams) override {
    const bool silent = checked_on_standard_output(
        files_, {{"FILE", file_}, {"--run", run_}, {"--projection", projection_}});
    const std::vector<Record> records = read_records(run_);
    Outlook outlook;
    if (!projection_.empty()) outlook.projections = read_projections(projection_);
    outlook.decision = decision_of(records, outlook.projections);
    const DecisionOutlook& answer = *outlook.decision;
    write_outlook_files(files_, records, outlook, decision_json(answer.decision, answer.inputs),
                        streams);
    if (!silent) write(streams.out, answer);
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

  // What was measured or projected, then what the user says.
  DecisionOutlook decision_of(const std::vector<Record>& records,
                              const std::vector<ProjectedStep>& projections) const {
    std::vector<Override> overrides;
    std::optional<KnobSubset> cheapest;
    std::string unresolved;  // the source of such a tax
    if (!projections.empty()) {
      const ProjectedStep& step = chosen(projections, case_, projection_, "projection",
                                         [](const ProjectedStep& one) { return one.name(); });
      overrides.push_back(tax_override(std::max(0.0, step.tax), std::max(0.0, step.p10),
                                       std::max(0.0, step.p90), "projected: " + step.name()));
      overrides.emplace_back("gpus", std::to_string(step.gpus));
    } else if (!run_.empty()) {
      const std::vector<RunTax> taxes = run_taxes(records);
      const RunTax& tax =
          chosen(taxes, case_, run_, "published tax", [](const RunTax& one) { return one.name; });
      overrides.push_back(tax_override(tax.value, tax.low, tax.high, tax.name));
      cheapest = tax.cheapest;
      if (!tax.resolved) unresolved = tax.name;
    }
    for (const std::string& text : settings_) overrides.push_back(setting(text));
    DecisionOutlook outlook;
    outlook.inputs = load_decision_inputs(file_, overrides);
    outlook.inputs.tax_unresolved =
        !unresolved.empty() && outlook.inputs.named("overhead_ratio").source == unresolved;
    if (!outlook.inputs.cheapest) outlook.inputs.cheapest = cheapest;
    outlook.decision = decide(outlook.inputs, kDraws, kSeed);
    const std::vector<std::string> missing = outlook.inputs.missing();
    if (std::find(missing.begin(), missing.end(), "gpus") != missing.end())
      outlook.sizes = by_size(outlook.inputs, kDraws / 10, kSeed);
    return outlook;
  }

  static void write(std::ostream& out, const DecisionOutlook& outlook) {
    const Decision& d = outlook.decision;
    const auto grid = [&](const char* title, const Grid& one) {
      if (*title != '\0') out << title << '\n';
      one.write(out, kIndent, false);
    };
    if (outlook.sizes.empty()) {
      out << d.sentence << "\n";
      grid("", policy_grid(d));
      grid("", threshold_grid(d));
      grid(
          "what always saves against never, as one input goes from one end of its band to the "
          "other",
          tornado_grid(d));
    } else {
      grid("by number of GPUs, since none was given", size_grid(outlook.sizes));
    }
    grid("inputs", input_grid(outlook.inputs));
    for (const std::string& words : decision_words(outlook)) out << words << '\n';
  }

  std::string file_, run_, projection_, case_;
  OutlookFiles files_;
  std::vector<std::string> settings_;
};

}  // namespace

std::unique_ptr<Command> make_decide_command() { return std::make_unique<DecideCommand>(); }

}  // namespace dettax
