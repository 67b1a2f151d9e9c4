#include "harness/cli/interrupt.h"

#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace dettax {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  const sigset_t set = watched_signals();
  errno = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (errno != 0) throw_errno("cannot block signals");
  // A reader that went away, or a limit on the size of files, must not end a run: the write fails instead.
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw_errno("cannot watch for signals");
}

InterruptWatch::~InterruptWatch() {
  const sigset_t set = watched_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
}

bool InterruptWatch::pending() const {
  pollfd there{signals_.get(), POLLIN, 0};
  return ::poll(&there, 1, 0) > 0;
}

std::optional<int> InterruptWatch::signal() {
  if (seen_) return seen_;
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    seen_ = static_cast<int>(info.ssi_signo);
    const sigset_t set = watched_signals();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  return seen_;
}

}  // namespace dettax
