#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "exporters/table.h"
#include "harness/base/text.h"
#include "harness/cli/case_kernels.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/plan_text.h"
#include "harness/cli/run_options.h"
#include "harness/cli/run_path.h"
#include "harness/cli/run_progress.h"
#include "harness/cli/terminal.h"
#include "harness/launch/memory.h"
#include "harness/launch/rank_pool.h"
#include "harness/launch/run_suite.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

// A job that Slurm starts again may meet its own end.
double lock_patience_seconds() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets any
  const bool requeued = std::getenv("SLURM_RESTART_COUNT") != nullptr;
  return requeued ? 60 : 2;
}

void write_list(std::ostream& out, const Suite& suite) {
  out << "cases\n";
  for (const Case& planned : suite.cases) out << "  " << planned.id() << '\n';
  out << "arms\n  fast\n  control\n";
  for (const Mode& mode : suite.modes) out << "  " << mode.name << '\n';
}

// Records of a suite that was edited since do not belong to what would be run now.
void require_same_suite(const RunFolder& folder, const Suite& suite) {
  for (const Case& planned : suite.cases) {
    const auto record = folder.record(planned.id());
    if (!record || record->suite_hash == suite.hash) continue;
    throw Error(ErrorKind::config,
                fmt::format("{}: was changed after {} was recorded; start a new run instead",
                            (folder.path() / "suite.yaml").string(), planned.id()));
  }
}

class RunCommand : public Command {
 public:
  const char* name() const override { return "run"; }
  const char* what() const override { return "measures the cases of a suite and prints the table"; }
  void declare(Options& options) override { declare_run_options(options, options_); }
  ExitCode run(const Streams& streams) override;

 private:
  bool asks_for_text(const Streams& streams, ExitCode& code) const;
  Suite suite() const;
  RunFolder folder(const Suite& suite) const;
  ExitCode measure(const Suite& suite, RunFolder folder, std::optional<double> budget_seconds,
                   const Streams& streams) const;
  void check_resume() const;
  void check_questions() const;

  RunOptions options_;
};

void RunCommand::check_resume() const {
  const bool other = !options_.suite.empty() || !options_.config.empty() ||
                     !options_.output_folder.empty() || changes_suite(options_);
  if (!other) return;
  throw Error(ErrorKind::usage,
              fmt::format("--resume {}: the run's own suite is resumed as it was; "
                          "give neither a suite nor settings",
                          options_.resume));
}

Suite RunCommand::suite() const {
  if (options_.resume.empty()) return load_run_suite(options_);
  check_resume();
  return load_suite((RunFolder::open(find_run(options_.resume)).path() / "suite.yaml").string());
}

RunFolder RunCommand::folder(const Suite& suite) const {
  if (!options_.resume.empty()) return RunFolder::open(find_run(options_.resume));
  return RunFolder::create(options_.output_folder.empty()
                               ? default_runs_folder()
                               : std::filesystem::path(options_.output_folder),
                           suite);
}

// Each of them answers instead of a run, so that only one can be meant.
void RunCommand::check_questions() const {
  std::vector<std::string> asked;
  if (options_.list) asked.emplace_back("--list");
  if (options_.dry_run) asked.emplace_back("--dry-run");
  if (options_.dump_config) asked.emplace_back("--dump-config");
  if (asked.size() > 1) throw Error(ErrorKind::usage, join(asked, " and ") + ": give one of them");
}

// --list, --dump-config and --dry-run start nothing.
bool RunCommand::asks_for_text(const Streams& streams, ExitCode& code) const {
  code = ExitCode::pass;
  if (options_.list && options_.suite.empty() && options_.config.empty() &&
      options_.resume.empty()) {
    for (const std::string& name : list_suites()) streams.out << name << '\n';
    return true;
  }
  if (options_.list) {
    write_list(streams.out, suite());
  } else if (options_.dump_config) {
    streams.out << dump_suite(suite());
  } else if (options_.dry_run) {
    const Suite planned = suite();
    check_launcher(planned.launch);
    const size_t running =
        write_plan(streams.out, planned, available_memory_bytes(), available_cores());
    if (running == 0) code = ExitCode::skipped;
  } else {
    return false;
  }
  return true;
}

ExitCode RunCommand::run(const Streams& streams) {
  // All that can be wrong with the command line is found before a folder is made.
  require_single_start();
  check_questions();
  std::optional<double> budget_seconds;
  if (!options_.budget.empty()) budget_seconds = parse_duration("--budget", options_.budget);
  require_writable(options_.exports);
  require_other_files(options_.exports, options_.suite);
  if (options_.kernels) require_kernel_programs();
  ExitCode code = ExitCode::pass;
  if (asks_for_text(streams, code)) return code;
  const Suite planned = suite();
  check_launcher(planned.launch);
  return measure(planned, folder(planned), budget_seconds, streams);
}

ExitCode RunCommand::measure(const Suite& suite, RunFolder folder,
                             std::optional<double> budget_seconds, const Streams& streams) const {
  const RunLock lock(folder.path(), lock_patience_seconds());
  InterruptWatch interrupts;
  LaunchSettings launch;
  launch.log_folder = folder.path() / "logs";
  launch.step_timeout_seconds =
      std::min(suite.measure.step_timeout_seconds, suite.measure.case_timeout_seconds);
  launch.interrupt = interrupts.descriptor();
  std::filesystem::create_directories(launch.log_folder);
  const auto launcher = make_launcher(suite.launch, launch);

  RunProgress progress(streams.err, {is_terminal(STDERR_FILENO), terminal_width(STDERR_FILENO),
                                     options_.no_progress});
  RunSuiteSettings settings;
  settings.budget_seconds = budget_seconds;
  settings.on_progress = [&](size_t done, size_t total, const CaseProgress& what) {
    progress.show(done, total, what);
  };
  settings.on_record = [&](size_t done, size_t total, const Record& record) {
    progress.finished(done, total, record);
  };
  settings.interrupted = [&] { return interrupts.signal().has_value(); };

  streams.err << "dettax: run folder " << folder.path().string() << '\n';
  require_same_suite(folder, suite);
  SuiteRun done = run_suite(suite, folder, *launcher, settings);
  progress.clear();
  if (options_.kernels && !done.interrupted) {
    const auto say = [&](const std::string& what) { streams.err << "dettax: " << what << '\n'; };
    measure_kernels(done.records, folder, {say, settings.interrupted});
    done.interrupted = interrupts.signal().has_value();
  }
  if (done.interrupted) {
    const int number = interrupts.signal().value_or(0);
    streams.err << fmt::format(
        "dettax: interrupted by signal {}; {} of {} cases are finished; go on with: dettax run "
        "--resume {}\n",
        number, done.records.size(), suite.cases.size(), folder.path().string());
    return exit_code_of_signal(number);
  }
  const ExitCode code = combined_exit_code(done.records);
  write_table(streams.out, done.records,
              {use_colour(options_.colour, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
  write_exports(options_.exports, done.records, streams);
  return code;
}

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace dettax
