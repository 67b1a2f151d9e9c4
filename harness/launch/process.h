#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace dettax {

struct ProcessSpec {
  std::string program;
  std::vector<std::string> arguments;              // without the program itself
  std::map<std::string, std::string> environment;  // laid over ours before the program starts
  std::vector<int> descriptors;  // become 3, 4, ... there; everything else is closed
  std::filesystem::path output;  // takes stdout and stderr
};

// A child process in a process group of its own (a terminal's Ctrl-C reaches only the parent, which
// then ends its children in order). It is killed by the kernel when this process dies, and killed
// and reaped when this object goes.
class Process {
 public:
  static Process start(const ProcessSpec& spec);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // The wait status once it has ended; nothing if it has not within this time.
  std::optional<int> wait(double seconds);
  void kill();  // SIGKILL to its whole group; reaps

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// "crashed (signal 6, Aborted)", "was killed (signal 9, Killed)", "ended with status 3".
std::string describe_exit(int wait_status);
// "crashed (signal 6, SIGABRT)".
std::string signal_words(int number);

// "; its last output: a | b" of the last lines that a process wrote to `log`, without rules and empty ones; empty if there are none.
std::string output_tail(const std::filesystem::path& log);

}  // namespace dettax
