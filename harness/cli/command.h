#pragma once

#include <iosfwd>
#include <memory>
#include <vector>

#include "harness/base/exit_code.h"
#include "harness/cli/options.h"

namespace dettax {

// Where a command writes: results to `out`, everything else to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
};

// A subcommand. One is made for each start of the program; declare() binds its options, run() does it.
class Command {
 public:
  virtual ~Command() = default;
  virtual const char* name() const = 0;
  virtual const char* what() const = 0;  // one line
  virtual bool hidden() const { return false; }
  virtual void declare(Options& options) = 0;
  virtual ExitCode run(const Streams& streams) = 0;
};

std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_serve_command();
std::unique_ptr<Command> make_push_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_diff_command();
std::unique_ptr<Command> make_bisect_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_restart_check_command();
std::unique_ptr<Command> make_accept_command();
std::unique_ptr<Command> make_baseline_command();
std::unique_ptr<Command> make_attribute_command();
std::unique_ptr<Command> make_list_command();
std::unique_ptr<Command> make_log_command();
std::unique_ptr<Command> make_project_command();
std::unique_ptr<Command> make_decide_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_worker_command();

// The command that these arguments ask for; null when they asked for help or the version, which is then written to `out`. Throws
// Error{usage} in one line.
Command* parse_command_line(int argc, const char* const* argv,
                            const std::vector<std::unique_ptr<Command>>& commands,
                            std::ostream& out);

}  // namespace dettax
