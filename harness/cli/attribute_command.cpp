#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "exporters/attribution_table.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "harness/cli/terminal.h"
#include "profiles/attribution.h"
#include "profiles/import/import.h"

namespace dettax {
namespace {

double ratio_of(const char* flag, std::optional<double> given, double fallback) {
  const double value = given.value_or(fallback);
  if (!(value >= 0 && value <= 1))
    throw Error(ErrorKind::usage,
                fmt::format("{}: a ratio from 0 to 1 is expected, such as {}", flag, fallback));
  return value;
}

class AttributeCommand : public Command {
 public:
  const char* name() const override { return "attribute"; }
  const char* what() const override {
    return "says where the step time of two traces differs: by mechanism and by place";
  }
  void declare(Options& options) override {
    options.positional("FAST", fast_,
                       "traces of the fast run: a file, or a folder with one a rank; PyTorch's "
                       "JSON (also .gz), an SQLite export of Nsight Systems, or captures of "
                       "libdettax_inject.so",
                       true);
    options.positional("DET", deterministic_, "traces of the deterministic run, of the same ranks",
                       true);
    options.text(
        "--json", "FILE", json_file_,
        "writes the whole attribution as JSON; - for standard output instead of the table");
    options.text("--step", "NAME", import_.step_name,
                 "name of the ranges that mark steps, in front of their number (ProfilerStep)");
    options.flag("--salvage", import_.salvage, "takes what can be read of a damaged file");
    options.flag("--ordinals", options_.by_ordinal,
                 "each occurrence of a place within a step by itself");
    options.number("--max-unmapped", unmapped_,
                   "step time without a place that is put up with, as a ratio (0.02)", "0.02");
    options.number("--unprofiled-fast", unprofiled_fast_,
                   "seconds a step without a profiler, fast run", "0.0555");
    options.number("--unprofiled-det", unprofiled_deterministic_, "likewise, deterministic run",
                   "0.0724");
    options.choice("--color", {"auto", "always", "never"}, colour_, "colours in the table");
  }

  ExitCode run(const Streams& streams) override {
    options_.unmapped_ratio_max =
        ratio_of("--max-unmapped", unmapped_, options_.unmapped_ratio_max);
    if (unprofiled_fast_.has_value() != unprofiled_deterministic_.has_value())
      throw Error(ErrorKind::usage,
                  "--unprofiled-fast and --unprofiled-det: both are needed, or neither");
    if (unprofiled_fast_) options_.unprofiled = {*unprofiled_fast_, *unprofiled_deterministic_};
    if (!json_file_.empty()) require_writable("--json", json_file_);
    require_other_files({{"--json", json_file_}}, {{"FAST", fast_}, {"DET", deterministic_}});
    const Attribution attribution =
        attribute(read_traces(fast_, import_), read_traces(deterministic_, import_), options_);
    if (!json_file_.empty()) write_text(json_file_, to_json(attribution), streams);
    if (json_file_ != "-")
      write_attribution(streams.out, attribution,
                        {use_colour(colour_, STDOUT_FILENO), terminal_width(STDOUT_FILENO)});
    return ExitCode::pass;
  }

 private:
  std::string fast_, deterministic_, json_file_, colour_ = "auto";
  ImportOptions import_;
  AttributionOptions options_;
  std::optional<double> unmapped_, unprofiled_fast_, unprofiled_deterministic_;
};

}  // namespace

std::unique_ptr<Command> make_attribute_command() { return std::make_unique<AttributeCommand>(); }

}  // namespace dettax
