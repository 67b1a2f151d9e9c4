#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/cli/export_options.h"
#include "harness/cli/launch_options.h"
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
  std::map<std::string, std::string> case_settings;  // flag -> value, "" where it was not given
  LaunchOptions launch;
  std::string text_file;
  std::string output_folder, resume;
  ExportOptions exports;
  std::string budget;
  bool profile = false, ablate = false, kernels = false;
  std::string depth;
  bool list = false, dry_run = false, dump_config = false, no_progress = false;
  std::string colour = "auto";
};
void declare_run_options(Options& options, RunOptions& values);

// The files that a run reads, those of a run that it goes on with included.
std::vector<NamedFile> files_read(const RunOptions& options);

// A case that its suite gives to CUDA is skipped where there is none; who asks for CUDA on the command line wants to hear it:
// Error{infrastructure}.
void require_backend(const RunOptions& options);

// Whether anything was given that changes what is run.
bool changes_suite(const RunOptions& options);

// The suite with everything the command line laid over it. Throws Error{usage} or Error{config}.
Suite load_run_suite(const RunOptions& options);

// "90", "90s", "20m", "1.5h" -> seconds. Error{usage} for anything else.
double parse_duration(const std::string& flag, const std::string& text);

}  // namespace dettax
