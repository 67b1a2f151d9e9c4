#include "harness/launch/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

int milliseconds_left(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const double left = std::chrono::duration<double, std::milli>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp(std::ceil(left), 0.0, static_cast<double>(INT_MAX)));
}

}  // namespace

std::pair<Channel, Channel> Channel::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("cannot make a socket pair");
  }
  return {Channel(Descriptor(ends[0])), Channel(Descriptor(ends[1]))};
}

bool Channel::send(const std::string& line) {
  const std::string text = line + '\n';
  size_t sent = 0;
  while (sent < text.size()) {
    // A peer that died must not kill this side by SIGPIPE.
    const ssize_t n = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
    if (n < 0) throw_errno("cannot write to a worker's socket");
    sent += static_cast<size_t>(n);
  }
  return true;
}

std::optional<std::string> Channel::take_line() {
  const size_t end = pending_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

Channel::Received Channel::receive(std::optional<double> timeout_seconds, int interrupt) {
  std::optional<Clock::time_point> deadline;
  if (timeout_seconds) {
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(std::max(*timeout_seconds, 0.0)));
  }
  for (;;) {
    if (auto line = take_line()) return {Event::line, std::move(*line)};
    std::array<pollfd, 2> waits{pollfd{socket_.get(), POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
    const int ready = ::poll(waits.data(), waits.size(), milliseconds_left(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) throw_errno("cannot wait for a worker");
    if (waits[1].revents != 0) return {Event::interrupt, {}};
    if (ready == 0) return {Event::timeout, {}};
    std::array<char, 65536> buffer;
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {Event::closed, {}};  // also ECONNRESET: the peer died with bytes unread
    pending_.append(buffer.data(), static_cast<size_t>(n));
  }
}

}  // namespace dettax
