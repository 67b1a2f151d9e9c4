// `dettax baseline record|check`.
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/cli/acceptance_text.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/terminal.h"
#include "results/analysis/acceptance/baseline.h"
#include "results/analysis/acceptance/rules.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

fs::path default_folder() { return fs::path("results") / "baselines"; }

std::vector<Record> records_of(const std::vector<RunFolder>& folders) {
  std::vector<Record> records;
  for (const RunFolder& folder : folders) {
    for (Record& record : folder.records()) records.push_back(std::move(record));
  }
  return records;
}

class BaselineCommand : public Command {
 public:
  const char* name() const override { return "baseline"; }
  const char* what() const override {
    return "records the performance of a platform from several runs, or checks runs against it";
  }
  void declare(Options& options) override {
    options.positional("record|check", action_, "what to do", true);
    options.positionals("RUN", runs_, "run folders, folders of them, or latest");
    options.text("--baseline", "FILE", file_,
                 "the baseline (results/baselines/<platform>.json of the runs' own platform); "
                 "- for standard output");
    options.text("--rules", "NAME", rules_,
                 "rules with its tolerances: a name of configs/acceptance or a file");
    options.flag("--force", force_, "check although machine, software or settings differ");
    options.choice("--color", {"auto", "always", "never"}, colour_, "colours in the table");
  }
  ExitCode run(const Streams& streams) override {
    if (action_ != "record" && action_ != "check")
      throw Error(ErrorKind::usage,
                  fmt::format("baseline {}: record or check is expected", action_));
    if (action_ == "check" && file_ == "-")
      throw Error(ErrorKind::usage, "baseline check --baseline -: a file is expected");
    if (action_ == "record" && !file_.empty()) require_writable("--baseline", file_);
    const std::vector<RunFolder> folders = find_runs(runs_);
    if (action_ == "check") return check(records_of(folders), streams);
    for (const RunFolder& folder : folders)
      require_other_files({{"--baseline", file_}}, files_of_run("run " + folder.run_id(), folder));
    return record(records_of(folders), streams);
  }

 private:
  fs::path path_for(const std::string& platform) const {
    return file_.empty() ? default_folder() / (platform + ".json") : fs::path(file_);
  }

  ExitCode record(const std::vector<Record>& records, const Streams& streams) const {
    const Baseline baseline = make_baseline(records);
    if (file_ == "-") {
      streams.out << baseline_json(baseline);
      return ExitCode::pass;
    }
    const fs::path path = path_for(baseline.platform);
    std::error_code error;  // that it is not there is said when it is written to
    if (file_.empty()) fs::create_directories(path.parent_path(), error);
    write_file_atomically(path, baseline_json(baseline));
    streams.out << fmt::format("baseline of {}: {} from {}, written to {}\n", baseline.platform,
                               format_things(std::ssize(baseline.rows), "value"),
                               format_things(std::ssize(baseline.runs), "run"), path.string());
    return ExitCode::pass;
  }

  ExitCode check(const std::vector<Record>& records, const Streams& streams) const {
    std::string platform;
    for (const Record& record : records) {
      if (platform.empty() && !record.arms.empty()) platform = platform_of(record.environment);
    }
    const fs::path path = path_for(platform);
    std::error_code error;
    if (!fs::is_regular_file(path, error))
      throw Error(
          ErrorKind::config,
          fmt::format("{}: there is no such baseline; `dettax baseline record RUN...` makes "
                      "one, --baseline names another",
                      path.string()));
    BaselineSettings settings = load_acceptance_rules(rules_).baseline;
    settings.force = force_;
    const BaselineCheck found =
        check_baseline(parse_baseline(read_file(path), path.string()), records, settings);
    write_baseline_check(streams.out, found,
                         {use_colour(colour_, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
    return static_cast<ExitCode>(found.exit_code);
  }

  std::string action_, file_, rules_ = "default", colour_ = "auto";
  std::vector<std::string> runs_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_baseline_command() { return std::make_unique<BaselineCommand>(); }

}  // namespace dettax
