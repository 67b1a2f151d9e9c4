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
#include "harness/cli/plan_text.h"
#include "harness/cli/run_options.h"
#include "harness/cli/suite_measurement.h"
#include "harness/cli/terminal.h"
#include "harness/launch/memory.h"
#include "harness/launch/rank_pool.h"
#include "results/reason.h"

namespace dettax {
namespace {

void write_list(std::ostream& out, const Suite& suite) {
  out << "cases\n";
  for (const Case& planned : suite.cases) out << "  " << planned.id() << '\n';
  out << "arms\n  fast\n  control\n";
  for (const Mode& mode : suite.modes) out << "  " << mode.name << '\n';
}

class RunCommand : public Command {
 public:
  const char* name() const override { return "run"; }
  const char* what() const override { return "measures the cases of a suite and prints the table"; }
  void declare(Options& options) override { declare_run_options(options, options_); }
  ExitCode run(const Streams& streams) override;

 private:
  bool asks_for_text(const Streams& streams, ExitCode& code) const;
  void check_questions() const;

  RunOptions options_;
};

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
    write_list(streams.out, suite_to_measure(options_));
  } else if (options_.dump_config) {
    streams.out << dump_suite(suite_to_measure(options_));
  } else if (options_.dry_run) {
    const Suite planned = suite_to_measure(options_);
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
  const std::vector<NamedFile> outputs = files_of(options_.exports);
  if (!options_.resume.empty()) check_resume(options_);
  require_other_files(outputs, files_read(options_));
  if (options_.kernels) require_kernel_programs();
  if (!options_.list && !options_.dump_config) require_backend(options_);
  ExitCode code = ExitCode::pass;
  if (asks_for_text(streams, code)) return code;
  const Suite planned = suite_to_measure(options_);
  check_launcher(planned.launch);
  RunFolder folder = folder_to_measure(options_, planned);
  const MeasuredSuite done =
      measure_suite(planned, folder, options_, budget_seconds, "run", streams);
  if (done.signal) return exit_code_of_signal(*done.signal);
  if (!any_on_standard_output(outputs)) {
    write_table(streams.out, done.records,
                {use_colour(options_.colour, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
  }
  write_exports(options_.exports, done.records, streams);
  return combined_exit_code(done.records);
}

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace dettax
