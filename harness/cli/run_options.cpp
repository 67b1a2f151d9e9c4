#include "harness/cli/run_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

// A file that is gone when this is.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text) {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("dettax-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    write_file_atomically(path_ = folder_ / name, text);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;  // a file left in the temporary folder harms nobody
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path folder_, path_;
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
  std::erase_if(suite.cases, [&](const Case& planned) {
    return ::fnmatch(pattern.c_str(), planned.id().c_str(), 0) != 0;
  });
  if (suite.cases.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("--case {}: no case matches; known: {}", pattern, join(ids, ", ")));
  }
}

void select_modes(Suite& suite, const std::vector<std::string>& names) {
  suite.modes.clear();
  for (const std::string& name : names) suite.modes.push_back(load_mode(name));
}

void require_text(const std::string& path) {
  std::error_code error;
  std::string what;
  if (::access(path.c_str(), R_OK) != 0) {
    what = "there is no such file, or it cannot be read";
  } else if (!std::filesystem::is_regular_file(path, error)) {
    what = "is no file of text";
  } else if (std::filesystem::file_size(path, error) == 0) {
    what = "is empty";
  }
  if (!what.empty()) throw Error(ErrorKind::usage, fmt::format("--text {}: {}", path, what));
}

// A flag that sets a key of every case in the suite file.
struct CaseSetting {
  std::string flag, key, value;
};

std::vector<CaseSetting> case_settings(const RunOptions& options) {
  std::vector<CaseSetting> out;
  const auto add = [&](const char* flag, const std::optional<int64_t>& value, const char* key) {
    if (value) out.push_back({flag, key, std::to_string(*value)});
  };
  add("--dp", options.dp, "layout.dp");
  // Data parallelism is the only axis that runs yet.
  add("--dp", options.dp, "topology.ranks_per_node");
  add("--mbs", options.micro, "batch.micro");
  add("--gbs", options.global, "batch.global");
  add("--seq-length", options.sequence_length, "batch.sequence_length");
  add("--seed", options.seed, "seed");
  if (!options.precision.empty()) out.push_back({"--precision", "precision", options.precision});
  if (!options.text_file.empty()) {
    require_text(options.text_file);
    out.push_back({"--text", "data.kind", "text"});
    out.push_back({"--text", "data.path", std::filesystem::absolute(options.text_file).string()});
  }
  return out;
}

// The loader names a key of the expanded suite, which nobody wrote; the flag behind it is meant.
std::string in_words_of_flags(std::string message, const std::vector<CaseSetting>& settings,
                              size_t cases) {
  for (size_t i = 0; i < cases; ++i) {
    for (const CaseSetting& setting : settings) {
      const std::string key = fmt::format("-C cases.{}.{}", i, setting.key);
      if (!message.starts_with(key)) continue;
      return fmt::format("{} {}{}", setting.flag, setting.value, message.substr(key.size()));
    }
  }
  return message;
}

// Through the loader, so that what the flags make is checked like any file.
Suite with_case_settings(const Suite& suite, const std::vector<CaseSetting>& settings) {
  const TemporaryFile expanded(suite.name + ".yaml", dump_suite(suite));
  std::vector<Override> overrides;
  for (size_t i = 0; i < suite.cases.size(); ++i) {
    for (const CaseSetting& setting : settings) {
      overrides.emplace_back(fmt::format("cases.{}.{}", i, setting.key), setting.value);
    }
  }
  try {
    return load_suite(expanded.path(), overrides);
  } catch (const Error& error) {
    std::string message = error.what();
    const size_t at = message.find(expanded.path());
    if (at != std::string::npos) message.replace(at, expanded.path().size(), suite.name);
    throw Error(error.kind(), in_words_of_flags(message, settings, suite.cases.size()));
  }
}

}  // namespace

void declare_run_options(Options& options, RunOptions& values) {
  options.positional("SUITE", values.suite, "name or file of a suite", false);
  options.text("-c,--config", "FILE", values.config, "suite file");
  options.texts("-C", "KEY=VALUE", values.overrides,
                "lays a value over the suite, e.g. measure.budget_seconds=60; may be repeated");
  options.texts("--mode", "NAME", values.modes, "modes instead of the suite's; may be repeated");
  options.text("--case", "GLOB", values.case_pattern, "only cases whose id matches");
  options.integer("--dp", values.dp, "data-parallel ranks of every case");
  options.integer("--mbs", values.micro, "micro-batch size of every case, in sequences");
  options.integer("--gbs", values.global, "global batch size of every case, in sequences");
  options.integer("--seq-length", values.sequence_length, "sequence length of every case");
  options.integer("--seed", values.seed, "seed of every case");
  options.text("--precision", "NAME", values.precision,
               "bf16, fp16, fp32, tf32, fp8_cs, fp8_mx or nvfp4");
  options.text("--text", "FILE", values.text_file, "trains on the bytes of this file");
  options.text("--budget", "SECONDS|20m", values.budget, "time for the whole run");
  options.text("--output-dir", "DIR", values.output_folder,
               "where the run folder is made (results/runs)");
  options.text("--resume", "RUN", values.resume,
               "goes on with a run; finished cases are not repeated");
  options.text("--json", "FILE", values.json_file, "writes all records to one file as well");
  options.flag("--list", values.list, "lists the suite's cases and modes, or the suites");
  options.flag("--dry-run", values.dry_run, "shows the plan with memory and time; starts nothing");
  options.flag("--dump-config", values.dump_config,
               "prints the suite with every default written out");
  options.flag("--no-progress", values.no_progress, "no progress on standard error");
  options.choice("--color", {"auto", "always", "never"}, values.colour, "colours in the table");
}

Suite load_run_suite(const RunOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& text : options.overrides) overrides.push_back(parse_override(text));
  Suite suite = load_suite(suite_source(options), overrides);
  if (!options.modes.empty()) select_modes(suite, options.modes);
  if (!options.case_pattern.empty()) select_cases(suite, options.case_pattern);
  const std::vector<CaseSetting> settings = case_settings(options);
  if (!settings.empty() || !options.modes.empty()) return with_case_settings(suite, settings);
  if (!options.case_pattern.empty()) suite.hash = hash_text(dump_suite(suite));
  return suite;
}

double parse_duration(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const std::pair<const char*, double> units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  for (const auto& [name, seconds] : units) {
    if (fault == std::errc() && unit == name && value > 0) return value * seconds;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{} {}: a time is expected, such as 90, 90s, 20m or 1.5h", flag, text));
}

}  // namespace dettax
