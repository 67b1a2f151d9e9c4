#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>

#include "tests/launch/support.h"

namespace dettax::testing {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

// The dettax program, run by a shell in `folder`; `before` is a program that starts it, with its arguments.
inline Outcome run_program(const std::filesystem::path& folder, const std::string& arguments,
                           const std::string& before = "") {
  const std::string out = (folder / "stdout.txt").string();
  const std::string err = (folder / "stderr.txt").string();
  const std::string command = "cd " + folder.string() + " && " + before + " " DETTAX_PROGRAM " " +
                              arguments + " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  return {WEXITSTATUS(status), read_text(out), read_text(err)};
}

}  // namespace dettax::testing
