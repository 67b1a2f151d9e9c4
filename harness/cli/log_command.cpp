#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/evidence/trainer_log.h"

namespace dettax {
namespace {

TrainerLog read(const std::string& path) {
  if (path == "-") return read_trainer_log(std::cin, "standard input");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::usage, path + ": is a folder; it must be the log of a trainer");
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::usage, path + ": cannot be read");
  return read_trainer_log(file, path);
}

class LogCommand : public Command {
 public:
  const char* name() const override { return "log"; }
  const char* what() const override {
    return "what a trainer's log says of operations without a deterministic version, and of "
           "restarts "
           "that end in NaN";
  }
  void declare(Options& options) override {
    options.positional("FILE", path_,
                       "standard error and output of a trainer; - for standard input", true);
  }
  ExitCode run(const Streams& streams) override {
    const Verdict verdict = judge_trainer_log(read(path_));
    streams.out << to_string(verdict.status) << "  " << verdict.reason_code << "\n  "
                << verdict.reason << '\n';
    return static_cast<ExitCode>(verdict.exit_code);
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> make_log_command() { return std::make_unique<LogCommand>(); }

}  // namespace dettax
