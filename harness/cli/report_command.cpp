#include <memory>
#include <ostream>
#include <string>

#include <unistd.h>

#include "exporters/exporter.h"
#include "exporters/table.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/run_path.h"
#include "harness/cli/terminal.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr const char* kTable = "table";

std::vector<std::string> formats() {
  std::vector<std::string> words{kTable};
  for (const Exporter& exporter : exporter_table()) words.emplace_back(exporter.format);
  return words;
}

class ReportCommand : public Command {
 public:
  const char* name() const override { return "report"; }
  const char* what() const override { return "prints a run as a table or in another format"; }
  void declare(Options& options) override {
    options.positional("RUN", run_, "run folder, its name under results/runs, or latest", true);
    options.choice("--format", formats(), format_, "how it is told");
    options.text("--output", "FILE", file_, "writes to a file instead of standard output");
    options.flag("--strict", strict_, "an inconclusive case is a failure in JUnit");
    options.choice("--color", {"auto", "always", "never"}, colour_, "colours in the table");
  }
  ExitCode run(const Streams& streams) override {
    require_writable("--output", file_);
    const RunFolder folder = open_run(run_);
    require_other_files({{"--output", file_}}, files_of_run("run " + folder.run_id(), folder));
    const auto records = folder.records();
    if (records.empty()) throw Error(ErrorKind::infrastructure, run_ + ": no case was planned");
    if (format_ == kTable) {
      table(records, streams);
    } else {
      write_export(format_, file_, strict_, records, streams);
    }
    return combined_exit_code(records);
  }

 private:
  void table(const std::vector<Record>& records, const Streams& streams) const {
    if (file_ == "-") {
      return write_table(streams.out, records,
                         {use_colour(colour_, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
    }
    write_file_atomically(file_, [&](std::ostream& out) {
      write_table(out, records, {colour_ == "always", TableStyle{}.width});
    });
  }

  std::string run_, format_ = kTable, file_ = "-";
  bool strict_ = false;
  std::string colour_ = "auto";
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace dettax
