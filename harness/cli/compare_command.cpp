#include <memory>
#include <optional>
#include <string>

#include <unistd.h>

#include "exporters/table.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/run_path.h"
#include "harness/cli/terminal.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

class CompareCommand : public Command {
 public:
  const char* name() const override { return "compare"; }
  const char* what() const override { return "compares two runs of the same cases, both ways"; }
  void declare(Options& options) override {
    options.positional("BASE", base_, "run to compare with", true);
    options.positional("NEW", fresh_, "run that is judged", true);
    options.flag("--force", force_, "compare although machine, software or settings differ");
    options.number("--tolerance", tolerance_, "change that counts as none, as a ratio (0.02)",
                   "0.02");
    options.choice("--color", {"auto", "always", "never"}, colour_, "colours in the table");
  }
  ExitCode run(const Streams& streams) override {
    CompareSettings settings;
    settings.force = force_;
    if (tolerance_) settings.tolerance_ratio = *tolerance_;
    if (!(settings.tolerance_ratio >= 0)) {
      throw Error(ErrorKind::usage, "--tolerance: a ratio of at least 0 is expected, such as 0.02");
    }
    const Comparison comparison =
        compare_runs(open_run(base_).records(), open_run(fresh_).records(), settings);
    write_comparison(streams.out, comparison,
                     {use_colour(colour_, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
    return static_cast<ExitCode>(comparison.exit_code);
  }

 private:
  std::string base_, fresh_;
  bool force_ = false;
  std::optional<double> tolerance_;
  std::string colour_ = "auto";
};

}  // namespace

std::unique_ptr<Command> make_compare_command() { return std::make_unique<CompareCommand>(); }

}  // namespace dettax
