#pragma once

#include <stdexcept>
#include <string>

namespace dettax {

// What went wrong, as far as the outside can act on it. The exit code follows from the kind (exit_code.h) and from nothing else.
enum class ErrorKind {
  usage,             // a command line that makes no sense
  config,            // a file or key that is wrong; the message names file, line and key
  infrastructure,    // the machine did not do its part: a process died, a disk is full, a rank hung
  unsupported,       // asked for something this build or machine does not have
  numeric,           // training produced a value that is not finite
  nondeterministic,  // a deterministic mode met an op that has no deterministic version
  timeout,           // a watchdog or a time limit ended it
  internal,          // a fault of dettax itself
};

// The one exception type of the project. It is thrown where the fault is seen, with a sentence that names what is wrong and what
// would be right, and caught in two places only: the runner (a case becomes a result with status error) and main.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace dettax
