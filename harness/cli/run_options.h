#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/options.h"
#include "harness/plan/suite.h"

namespace dettax {

// What `dettax run` was asked to run, as text from the command line.
struct RunOptions {
  std::string suite;                   // name or path
  std::string config;                  // -c: the same as a path
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> modes;
  std::string case_pattern;
  std::optional<int64_t> dp, micro, global, sequence_length, seed;
  std::string precision;
  std::string text_file;
  std::string output_folder, resume, json_file;
  std::string budget;
  bool list = false, dry_run = false, dump_config = false, no_progress = false;
  std::string colour = "auto";
};
void declare_run_options(Options& options, RunOptions& values);

// The suite with everything the command line laid over it. Throws Error{usage} or Error{config}.
Suite load_run_suite(const RunOptions& options);

// "90", "90s", "20m", "1.5h" -> seconds. Error{usage} for anything else.
double parse_duration(const std::string& flag, const std::string& text);

}  // namespace dettax
