#include "harness/cli/run_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/injections.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/run_path.h"
#include "harness/device/cuda_presence.h"
#include "harness/plan/override.h"

namespace dettax {
namespace {

// A flag that sets a key of every case.
struct CaseFlag {
  const char* flag;
  const char* placeholder;
  const char* key;
  const char* what;
};
constexpr CaseFlag kCaseFlags[] = {
    {"--dp", "N", "layout.dp", "data-parallel ranks of every case"},
    {"--mbs", "N", "batch.micro", "micro-batch size of every case, in sequences"},
    {"--gbs", "N", "batch.global", "global batch size of every case, in sequences"},
    {"--seq-length", "N", "batch.sequence_length", "sequence length of every case, in tokens"},
    {"--seed", "N", "seed", "seed of every case"},
    {"--precision", "NAME", "precision", "precision of every case"},
    {"--backend", "cpu|cuda", "backend",
     "backend of every case; cuda asked for here and not there is an error, not a skipped case"},
};

Override parse_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw Error(
        ErrorKind::usage,
        fmt::format("-C {}: key=value is expected, such as measure.budget_seconds=60", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string suite_source(const RunOptions& options) {
  if (!options.suite.empty() && !options.config.empty()) {
    throw Error(ErrorKind::usage, fmt::format("-c {} and the suite {}: give one of them",
                                              options.config, options.suite));
  }
  const std::string& source = options.config.empty() ? options.suite : options.config;
  if (source.empty()) {
    throw Error(ErrorKind::usage, "run: which suite? known: " + join(list_suites(), ", "));
  }
  return source;
}

void select_cases(Suite& suite, const std::string& pattern) {
  std::vector<std::string> ids;
  for (const Case& planned : suite.cases) ids.push_back(planned.id());
  std::erase_if(suite.cases,
                [&](const Case& planned) { return !matches_glob(pattern, planned.id()); });
  if (suite.cases.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("--case {}: no case matches; known: {}", pattern, join(ids, ", ")));
  }
}

// `--mode a --mode b` as the suite's list of modes; each answers for itself.
Override mode_setting(const std::vector<std::string>& names) {
  std::vector<Yaml> items;
  for (size_t i = 0; i < names.size(); ++i) {
    items.push_back(yaml_scalar(names[i], true));
    set_origin(items.back(), "--mode", fmt::format("modes.{}", i));
  }
  return {"modes", yaml_list(std::move(items)), "--mode", join(names, " --mode ")};
}

std::vector<Override> case_settings(const RunOptions& options) {
  std::vector<Override> out;
  const auto add = [&](const std::string& flag, const std::string& key, Yaml value,
                       const std::string& text) {
    out.emplace_back("cases.*." + key, std::move(value), flag, text);
  };
  for (const CaseFlag& setting : kCaseFlags) {
    const auto given = options.case_settings.find(setting.flag);
    if (given == options.case_settings.end() || given->second.empty()) continue;
    const std::string& text = given->second;
    add(setting.flag, setting.key, yaml_scalar(text), text);
    // The dump says how many ranks a node has; another layout has others.
    if (std::string(setting.key).starts_with("layout."))
      add(setting.flag, "topology.ranks_per_node", Yaml{}, text);
  }
  const std::string& file = options.text_file;
  if (!file.empty()) {
    add("--text", "data.kind", yaml_scalar("text"), file);
    add("--text", "data.hash", yaml_scalar("", true), file);  // the dump has that of the old text
    add("--text", "data.path", yaml_scalar(std::filesystem::absolute(file).string(), true), file);
  }
  return out;
}

std::string precision_help(const std::string& what) {
  std::vector<std::string> words;
  for (const Precision precision : usable_precisions(Backend::cpu))
    words.emplace_back(to_string(precision));
  return fmt::format("{}; this build has {}", what, join(words, ", "));
}

}  // namespace

void declare_run_options(Options& options, RunOptions& values) {
  options.positional("SUITE", values.suite, "name or file of a suite", false);
  options.text("-c,--config", "FILE", values.config, "suite file");
  options.texts("-C", "KEY=VALUE", values.overrides,
                "lays a value over the suite, e.g. measure.budget_seconds=60; may be repeated");
  options.texts("--mode", "NAME", values.modes, "modes instead of the suite's; may be repeated");
  options.text("--case", "GLOB", values.case_pattern, "only cases whose id matches");
  for (const CaseFlag& setting : kCaseFlags) {
    const bool precision = std::string(setting.key) == "precision";
    options.text(setting.flag, setting.placeholder, values.case_settings[setting.flag],
                 precision ? precision_help(setting.what) : setting.what);
  }
  declare_launch_options(options, values.launch);
  options.flag("--profile", values.profile,
               "records further steps of each arm and says where the deterministic ones lose time");
  options.flag(
      "--ablate", values.ablate,
      "turns each knob of the first deterministic mode alone: what costs what, and what is needed");
  options.flag("--kernels", values.kernels,
               "then measures kernels and collectives of each case's shape alone, for its record");
  options.choice("--depth", ledger_depth_words(), values.depth,
                 "how much of a step the ledgers hold (evidence.depth of the suite)");
  options.text("--text", "FILE", values.text_file, "trains on the bytes of this file");
  options.text("--budget", "SECONDS|20m", values.budget, "time for the whole run");
  options.text("--output-dir", "DIR", values.output_folder,
               "where the run folder is made (results/runs)");
  options.text("--resume", "RUN", values.resume,
               "goes on with a run; finished cases are not repeated");
  declare_export_options(options, values.exports);
  options.flag("--list", values.list, "lists the suite's cases and modes, or the suites");
  options.flag("--dry-run", values.dry_run, "shows the plan with memory and time; starts nothing");
  options.flag("--dump-config", values.dump_config,
               "prints the suite with every default written out");
  options.flag("--no-progress", values.no_progress, "no progress on standard error");
  options.choice("--color", {"auto", "always", "never"}, values.colour, "colours in the table");
}

bool changes_suite(const RunOptions& options) {
  return options.profile || options.ablate || !options.depth.empty() ||
         !options.overrides.empty() || !options.modes.empty() || !options.case_pattern.empty() ||
         !case_settings(options).empty();
}

std::vector<NamedFile> files_read(const RunOptions& options) {
  std::vector<NamedFile> files;
  if (!options.resume.empty()) files = files_of_run("--resume", open_run(options.resume));
  files.push_back({"the suite", options.suite});
  files.push_back({"the suite", options.config});
  files.push_back({"the text", options.text_file});
  files.push_back({"the hostfile", options.launch.hostfile});
  return files;
}

void require_backend(const RunOptions& options) {
  const auto given = options.case_settings.find("--backend");
  if (given == options.case_settings.end() || given->second != to_string(Backend::cuda)) return;
  const std::string missing = find_cuda().missing;
  if (!missing.empty()) throw Error(ErrorKind::infrastructure, "--backend cuda: " + missing);
}

Suite load_run_suite(const RunOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(parse_override(text));
  if (!options.modes.empty()) overrides.push_back(mode_setting(options.modes));
  if (!options.depth.empty())
    overrides.emplace_back("evidence.depth", yaml_scalar(options.depth), "--depth", options.depth);
  Suite suite = load_suite(suite_source(options), overrides);
  if (!options.case_pattern.empty()) select_cases(suite, options.case_pattern);
  const std::vector<Override> settings = case_settings(options);
  if (changes_suite(options)) suite = with_overrides(suite, settings);
  lay_over(suite, options.launch);
  suite.profile.arms = suite.profile.arms || options.profile;
  suite.profile.ablate = suite.profile.ablate || options.ablate;
  suite.hash = hash_text(dump_suite(suite));
  check_injections(suite);
  return suite;
}

double parse_duration(const std::string& flag, const std::string& text) {
  constexpr double kLongestSeconds = 1e8;  // three years
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const std::pair<const char*, double> units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [name, seconds] : units) {
    if (fault == std::errc() && unit == name && value > 0 && value < kLongestSeconds)
      return value * seconds;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{} {}: a time is expected, such as 90, 90s, 20m or 1.5h", flag, text));
}

}  // namespace dettax
