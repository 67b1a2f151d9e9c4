#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <poll.h>

#include "exporters/prometheus/metrics_server.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/interrupt.h"
#include "harness/cli/run_options.h"
#include "harness/cli/run_path.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

class ServeCommand : public Command {
 public:
  const char* name() const override { return "serve"; }
  const char* what() const override { return "serves the metrics of runs to Prometheus"; }
  void declare(Options& options) override {
    options.positional("FOLDER", folder_, "where the runs lie (results/runs)", false);
    options.text("--listen", "HOST:PORT", address_, "address of /metrics (127.0.0.1:9464)");
    options.text("--basic-auth", "FILE", auth_file_,
                 "a file of one line, user:password, that a scraper must give");
    options.text("--keep", "TIME", keep_, "how long an ended run is told of (168h)");
  }
  ExitCode run(const Streams& streams) override;

 private:
  ServerSettings settings() const;

  std::string folder_, address_, auth_file_, keep_;
};

ServerSettings ServeCommand::settings() const {
  ServerSettings settings;
  settings.runs_folder = folder_.empty() ? default_runs_folder() : std::filesystem::path(folder_);
  if (!std::filesystem::is_directory(settings.runs_folder))
    throw Error(ErrorKind::config,
                fmt::format("{}: is no folder of runs", settings.runs_folder.string()));
  if (!address_.empty()) settings.address = address_;
  if (settings.address.find(':') == std::string::npos)
    throw Error(ErrorKind::usage,
                fmt::format("--listen {}: host and port are expected, such as 127.0.0.1:9464",
                            settings.address));
  if (!keep_.empty()) settings.keep_seconds = parse_duration("--keep", keep_);
  if (auth_file_.empty()) return settings;
  const std::string line(trim(read_file(auth_file_)));
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == line.size() ||
      line.find('\n') != std::string::npos)
    throw Error(ErrorKind::config,
                fmt::format("--basic-auth {}: one line user:password is expected", auth_file_));
  settings.user = line.substr(0, colon);
  settings.password = line.substr(colon + 1);
  return settings;
}

ExitCode ServeCommand::run(const Streams& streams) {
  InterruptWatch interrupts;  // before the server has threads, which would take the signals
  const ServerSettings wanted = settings();
  const MetricsServer server(wanted);
  const std::string host = wanted.address.substr(0, wanted.address.rfind(':'));
  streams.err << fmt::format("dettax: metrics of {} on http://{}:{}/metrics\n",
                             wanted.runs_folder.string(), host, server.port())
              << std::flush;
  pollfd until{interrupts.descriptor(), POLLIN, 0};
  while (!interrupts.signal()) ::poll(&until, 1, -1);
  return exit_code_of_signal(interrupts.signal().value_or(0));
}

}  // namespace

std::unique_ptr<Command> make_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace dettax
