#include "harness/launch/process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/descriptor.h"

namespace dettax {
namespace {

constexpr int kFirstInherited = 3;
// Above every number that the child's descriptors are moved to.
constexpr int kScratch = 64;
// Status of a program that never began: by shells, the dynamic loader, and here.
constexpr int kNotStarted = 127;

// All that the child needs between fork and exec, laid out before the fork: after it only
// async-signal-safe calls are allowed.
struct Prepared {
  std::string program;
  std::vector<std::string> argument_text, variable_text;
  std::vector<char*> arguments, variables;
  std::vector<int> descriptors;
  int input = -1, output = -1, failure = -1;
  pid_t parent = 0;
};

std::vector<char*> pointers(std::vector<std::string>& text) {
  std::vector<char*> out;
  out.reserve(text.size() + 1);
  for (std::string& entry : text) out.push_back(entry.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& laid_over) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!laid_over.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : laid_over) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

Descriptor open_file(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!file) throw_errno("cannot open " + path);
  return file;
}

[[noreturn]] void run_child(Prepared& prepared) {
  const auto fail = [&] {
    const int code = errno;
    // Nothing can be done here if even this write fails; the parent then sees an early end.
    [[maybe_unused]] const ssize_t n = ::write(prepared.failure, &code, sizeof code);
    ::_exit(kNotStarted);
  };
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (::getppid() != prepared.parent) ::_exit(kNotStarted);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::signal(number, SIG_DFL);
  const int failure = ::fcntl(prepared.failure, F_DUPFD_CLOEXEC, kScratch);
  prepared.failure = failure;
  for (int& fd : prepared.descriptors) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kScratch);
  if (::dup2(prepared.input, 0) < 0 || ::dup2(prepared.output, 1) < 0 ||
      ::dup2(prepared.output, 2) < 0) {
    fail();
  }
  int target = kFirstInherited;
  for (const int fd : prepared.descriptors) {
    if (fd < 0 || ::dup2(fd, target++) < 0) fail();
  }
  ::execve(prepared.program.c_str(), prepared.arguments.data(), prepared.variables.data());
  fail();
  ::_exit(kNotStarted);
}

}  // namespace

Process Process::start(const ProcessSpec& spec) {
  Prepared prepared;
  prepared.program = spec.program;
  prepared.argument_text.push_back(spec.program);
  for (const std::string& argument : spec.arguments) prepared.argument_text.push_back(argument);
  prepared.variable_text = merged_environment(spec.environment);
  prepared.arguments = pointers(prepared.argument_text);
  prepared.variables = pointers(prepared.variable_text);
  prepared.descriptors = spec.descriptors;
  const Descriptor input = open_file("/dev/null", O_RDONLY);
  const Descriptor output = open_file(spec.output.string(), O_WRONLY | O_CREAT | O_APPEND);
  prepared.input = input.get();
  prepared.output = output.get();
  prepared.parent = ::getpid();
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const Descriptor failure_read(pipe_ends[0]);
  Descriptor failure_write(pipe_ends[1]);
  prepared.failure = failure_write.get();

  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start a process");
  if (pid == 0) run_child(prepared);
  Process process(pid);
  failure_write.reset();
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(failure_read.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (n > 0) {
    errno = code;
    throw_errno("cannot start " + spec.program);
  }
  return process;
}

Process::Process(Process&& other) noexcept : pid_(other.pid_), status_(other.status_) {
  other.pid_ = -1;
}

Process::~Process() { kill(); }

std::optional<int> Process::wait(double seconds) {
  if (pid_ < 0 || status_) return status_;
  const Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (watch) {
    pollfd ended{watch.get(), POLLIN, 0};
    while (::poll(&ended, 1, static_cast<int>(seconds * 1000)) < 0 && errno == EINTR) {
    }
  }
  // Looked at without reaping: until kill() the number cannot be given to another process.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_) {
    status_ = info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status;
  }
  return status_;
}

void Process::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);  // the group, even when its leader has ended: nothing it started may stay
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string signal_words(int number) {
  const char* words = ::sigabbrev_np(number);
  return fmt::format("{} (signal {}, SIG{})", number == SIGKILL ? "was killed" : "crashed", number,
                     words == nullptr ? "?" : words);
}

std::string output_tail(const std::filesystem::path& log) {
  constexpr size_t kLines = 5;
  std::ifstream file(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const bool rule = line.find_first_not_of("-= ") == std::string::npos;
    if (rule) continue;
    lines.push_back(line);
    if (lines.size() > kLines) lines.erase(lines.begin());
  }
  return lines.empty() ? "" : fmt::format("; its last output: {}", join(lines, " | "));
}

std::string describe_exit(int wait_status) {
  if (WIFSIGNALED(wait_status)) return signal_words(WTERMSIG(wait_status));
  const int status = WEXITSTATUS(wait_status);
  // The dynamic loader's status, before any of our code ran.
  const char* const hint =
      status == kNotStarted
          ? " (could not be loaded; are there too few file descriptors? ulimit -n)"
          : "";
  return fmt::format("ended with status {}{}", status, hint);
}

}  // namespace dettax
