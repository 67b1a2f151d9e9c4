#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "exporters/exporter.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/run_path.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

std::string all_flags() {
  std::vector<std::string> flags;
  for (const Exporter& exporter : exporter_table())
    flags.push_back("--" + std::string(exporter.format));
  return join(flags, ", ");
}

class ExportCommand : public Command {
 public:
  const char* name() const override { return "export"; }
  const char* what() const override { return "writes runs to files of other tools' formats"; }
  void declare(Options& options) override {
    options.positionals("RUN", runs_, "run folders, names under results/runs, or latest");
    declare_export_options(options, options_);
  }
  ExitCode run(const Streams& streams) override {
    if (!any_file(options_))
      throw Error(ErrorKind::usage, "export: to which file? give one or more of " + all_flags());
    require_writable(options_);
    require_other_files(files_of(options_), {});
    std::vector<Record> records;
    for (const std::string& run : runs_) {
      const RunFolder folder = open_run(run);
      require_other_files(files_of(options_), files_of_run("run " + folder.run_id(), folder));
      std::vector<Record> more = folder.records();
      if (more.empty()) throw Error(ErrorKind::infrastructure, run + ": no case was planned");
      records.insert(records.end(), std::make_move_iterator(more.begin()),
                     std::make_move_iterator(more.end()));
    }
    write_exports(options_, records, streams);
    return combined_exit_code(records);
  }

 private:
  std::vector<std::string> runs_;
  ExportOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace dettax
