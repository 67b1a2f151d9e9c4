#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "exporters/prometheus/push.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/run_path.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

class PushCommand : public Command {
 public:
  const char* name() const override { return "push"; }
  const char* what() const override { return "pushes the metrics of runs to a Pushgateway"; }
  void declare(Options& options) override {
    options.positionals("RUN", runs_, "run folders, names under results/runs, or latest");
    options.text("--gateway", "HOST:PORT", gateway_, "where the Pushgateway listens");
  }
  // The verdict is that of the run: here it is only whether the gateway took it.
  ExitCode run(const Streams&) override {
    if (gateway_.empty())
      throw Error(ErrorKind::usage, "push: to which Pushgateway? give --gateway HOST:PORT");
    if (gateway_.find(':') == std::string::npos || gateway_.find('/') != std::string::npos)
      throw Error(
          ErrorKind::usage,
          fmt::format("--gateway {}: host and port are expected, such as gateway:9091", gateway_));
    std::vector<Record> records;
    for (const std::string& run : runs_) {
      for (Record& record : open_run(run).records()) records.push_back(std::move(record));
    }
    push_metrics(records, gateway_);
    return ExitCode::pass;
  }

 private:
  std::vector<std::string> runs_;
  std::string gateway_;
};

}  // namespace

std::unique_ptr<Command> make_push_command() { return std::make_unique<PushCommand>(); }

}  // namespace dettax
