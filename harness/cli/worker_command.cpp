#include <memory>

#include <sys/stat.h>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/launch/rank_worker.h"
#include "harness/launch/worker.h"

namespace dettax {
namespace {

class WorkerCommand : public Command {
 public:
  const char* name() const override { return "worker"; }
  const char* what() const override { return "serves a launcher; not for people"; }
  bool hidden() const override { return true; }
  void declare(Options& options) override {
    options.text("--binding", "WORD", binding_, "none or core");
    options.text("--control", "ADDRESSES", addresses_, "of the launcher, if this is one rank");
    options.text("--rank-variable", "NAME", rank_variable_, "that says which");
  }
  ExitCode run(const Streams&) override {
    if (!addresses_.empty()) {
      run_rank_worker(addresses_, rank_variable_);
      return ExitCode::pass;
    }
    struct stat socket{};
    if (::fstat(kWorkerSocket, &socket) != 0 || !S_ISSOCK(socket.st_mode))
      throw Error(ErrorKind::usage, "dettax worker is started by dettax run, not by hand");
    PoolSettings settings;
    settings.binding = find_binding(binding_);
    run_worker(Channel(Descriptor(kWorkerSocket)), StatusPage::open(Descriptor(kWorkerStatus)),
               settings);
    return ExitCode::pass;
  }

 private:
  std::string binding_ = "none";
  std::string addresses_, rank_variable_;
};

}  // namespace

std::unique_ptr<Command> make_worker_command() { return std::make_unique<WorkerCommand>(); }

}  // namespace dettax
