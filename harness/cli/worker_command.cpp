#include <memory>

#include <sys/stat.h>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/launch/worker.h"

namespace dettax {
namespace {

class WorkerCommand : public Command {
 public:
  const char* name() const override { return "worker"; }
  const char* what() const override { return "serves a launcher; not for people"; }
  bool hidden() const override { return true; }
  void declare(Options&) override {}
  ExitCode run(const Streams&) override {
    struct stat socket{};
    if (::fstat(kWorkerSocket, &socket) != 0 || !S_ISSOCK(socket.st_mode))
      throw Error(ErrorKind::usage, "dettax worker is started by dettax run, not by hand");
    run_worker(Channel(Descriptor(kWorkerSocket)), StatusPage::open(Descriptor(kWorkerStatus)));
    return ExitCode::pass;
  }
};

}  // namespace

std::unique_ptr<Command> make_worker_command() { return std::make_unique<WorkerCommand>(); }

}  // namespace dettax
