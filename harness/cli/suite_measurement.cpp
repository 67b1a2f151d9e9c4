// Measures suites for the commands that do.
#include "harness/cli/suite_measurement.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/cli/case_kernels.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/run_path.h"
#include "harness/cli/run_progress.h"
#include "harness/cli/terminal.h"
#include "harness/launch/run_suite.h"
#include "results/journal.h"

namespace dettax {
namespace {

// A job that Slurm starts again may meet its own end.
double lock_patience_seconds() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets any
  const bool requeued = std::getenv("SLURM_RESTART_COUNT") != nullptr;
  return requeued ? 60 : 2;
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

}  // namespace

void check_resume(const RunOptions& options) {
  const bool other = !options.suite.empty() || !options.config.empty() ||
                     !options.output_folder.empty() || changes_suite(options);
  if (!other) return;
  throw Error(ErrorKind::usage,
              fmt::format("--resume {}: the run's own suite is resumed as it was; "
                          "give neither a suite nor settings",
                          options.resume));
}

Suite suite_to_measure(const RunOptions& options) {
  if (options.resume.empty()) return load_run_suite(options);
  check_resume(options);
  return load_suite((open_run(options.resume).path() / "suite.yaml").string());
}

RunFolder folder_to_measure(const RunOptions& options, const Suite& suite) {
  if (!options.resume.empty()) return open_run(options.resume);
  return RunFolder::create(options.output_folder.empty()
                               ? default_runs_folder()
                               : std::filesystem::path(options.output_folder),
                           suite);
}

MeasuredSuite measure_suite(const Suite& suite, RunFolder& folder, const RunOptions& options,
                            std::optional<double> budget_seconds, const std::string& command,
                            const Streams& streams, const RunNotes& notes) {
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
                                     options.no_progress});
  RunSuiteSettings settings;
  settings.budget_seconds = budget_seconds;
  settings.on_progress = [&](size_t done, size_t total, const CaseProgress& what) {
    progress.show(done, total, what);
  };
  settings.on_record = [&](size_t done, size_t total, const Record& record) {
    progress.finished(done, total, record);
  };
  settings.on_not_saved = [&](const std::string& case_id, const std::string& why) {
    progress.clear();
    streams.err << fmt::format("dettax: {}: {}\n", case_id, why);
  };
  settings.interrupted = [&] { return interrupts.signal().has_value(); };

  streams.err << "dettax: run folder " << folder.path().string() << '\n';
  require_same_suite(folder, suite);
  for (const std::string& note : notes.notes) folder.journal(kNoteEvent, "", note);
  if (!notes.not_idle.empty()) folder.journal(kNotIdleEvent, "", notes.not_idle);
  SuiteRun done = run_suite(suite, folder, *launcher, settings);
  progress.clear();
  if (options.kernels && !done.interrupted) {
    const auto say = [&](const std::string& what) { streams.err << "dettax: " << what << '\n'; };
    measure_kernels(done.records, folder, {say, settings.interrupted});
    done.interrupted = interrupts.signal().has_value();
  }
  MeasuredSuite measured{done.records, std::nullopt};
  if (!done.interrupted) return measured;
  measured.signal = interrupts.signal().value_or(0);
  streams.err << fmt::format(
      "dettax: interrupted by signal {}; {} of {} cases are finished; go on with: dettax {} "
      "--resume {}\n",
      *measured.signal, done.records.size(), suite.cases.size(), command, folder.path().string());
  return measured;
}

}  // namespace dettax
