#include <memory>
#include <ostream>
#include <string>

#include <unistd.h>

#include "exporters/table.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/run_path.h"
#include "harness/cli/terminal.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

class ReportCommand : public Command {
 public:
  const char* name() const override { return "report"; }
  const char* what() const override { return "prints the table of a run"; }
  void declare(Options& options) override {
    options.positional("RUN", run_, "run folder, its name under results/runs, or latest", true);
    options.choice("--color", {"auto", "always", "never"}, colour_, "colours in the table");
  }
  ExitCode run(const Streams& streams) override {
    const auto records = RunFolder::open(find_run(run_)).records();
    if (records.empty()) throw Error(ErrorKind::infrastructure, run_ + ": no case was planned");
    write_table(streams.out, records,
                {use_colour(colour_, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
    return combined_exit_code(records);
  }

 private:
  std::string run_;
  std::string colour_ = "auto";
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace dettax
