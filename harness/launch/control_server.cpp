#include "harness/launch/control_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 4096;         // all ranks of a large group connect at once
constexpr double kConnectSeconds = 2;  // for one address
constexpr std::chrono::milliseconds kRetryInterval{50};

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno("cannot draw a random token");
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

void set_option(int socket, int level, int name, int value, const char* what) {
  if (::setsockopt(socket, level, name, &value, sizeof value) != 0) throw_errno(what);
}

// A peer whose host or network is gone is noticed within half a minute also where nobody says
// anything.
void watch_peer(int socket) {
  constexpr int kIdleSeconds = 10, kIntervalSeconds = 5, kProbes = 4, kUnansweredMs = 30'000;
  const char* what = "cannot set up a control connection";
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1, what);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds, what);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kIntervalSeconds, what);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes, what);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs, what);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, what);
}

// Of every family where the kernel has IPv6, else IPv4 alone.
Descriptor listening_socket() {
  Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket) {
    set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0, "cannot set up the control socket");
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) {
      return socket;
    }
  }
  socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_errno("cannot make the control socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
    throw_errno("cannot bind the control socket");
  }
  return socket;
}

int port_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(socket, address, &size) != 0) throw_errno("cannot read the control port");
  const in_port_t port = storage.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port;
  return ntohs(port);
}

// IPv4 addresses of this host's interfaces, loopback last: ranks on this host reach it by any.
std::vector<std::string> host_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("cannot list this host's addresses");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<std::string> found, loopback;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & static_cast<unsigned>(IFF_UP)) == 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    const bool is_loopback = (entry->ifa_flags & static_cast<unsigned>(IFF_LOOPBACK)) != 0;
    (is_loopback ? loopback : found).emplace_back(text.data());
  }
  found.insert(found.end(), loopback.begin(), loopback.end());
  return found;
}

// Finishes a connect that was begun; false if it failed or takes too long.
bool connected(int socket, double seconds) {
  pollfd wait{socket, POLLOUT, 0};
  int ready = 0;
  while ((ready = ::poll(&wait, 1, static_cast<int>(seconds * 1000))) < 0 && errno == EINTR) {
  }
  if (ready <= 0) return false;
  int fault = 0;
  socklen_t size = sizeof fault;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &fault, &size) == 0 && fault == 0;
}

Descriptor try_address(const std::string& address, double seconds) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Descriptor socket(
        ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, entry->ai_protocol));
    if (!socket) continue;
    const bool begun =
        ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 || errno == EINPROGRESS;
    if (begun && connected(socket.get(), seconds)) return socket;
  }
  return {};
}

// Channel's calls expect a socket that blocks.
Channel blocking_channel(Descriptor socket) {
  watch_peer(socket.get());
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    throw_errno("cannot set up a control connection");
  }
  return Channel(std::move(socket));
}

}  // namespace

ControlServer::ControlServer(const std::string& address)
    : socket_(listening_socket()), token_(random_token()) {
  if (::listen(socket_.get(), kBacklog) != 0) throw_errno("cannot listen on the control socket");
  const int port = port_of(socket_.get());
  std::vector<std::string> hosts =
      address.empty() ? host_addresses() : std::vector<std::string>{address};
  for (std::string& host : hosts) {
    host = host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                               : fmt::format("[{}]:{}", host, port);
  }
  addresses_ = join(hosts, ",");
}

std::optional<Channel> ControlServer::accept() {
  Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket) return blocking_channel(std::move(socket));
  const bool nobody = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
  if (!nobody) throw_errno("cannot accept a rank's connection");
  return std::nullopt;
}

Channel connect_to_launcher(const std::string& addresses, double seconds) {
  const std::vector<std::string> list = split(addresses, ',');
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  for (;;) {
    for (const std::string& address : list) {
      const double left = std::chrono::duration<double>(end - Clock::now()).count();
      if (Descriptor socket = try_address(address, std::clamp(left, 0.1, kConnectSeconds))) {
        return blocking_channel(std::move(socket));
      }
    }
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(kRetryInterval);
  }
  throw Error(ErrorKind::infrastructure,
              fmt::format("the launcher answers on none of {}; name the address that this host can "
                          "reach with --control-address",
                          join(list, ", ")));
}

bool resolves(const std::string& host) {
  addrinfo* list = nullptr;
  const bool known = ::getaddrinfo(host.c_str(), nullptr, nullptr, &list) == 0;
  if (known) ::freeaddrinfo(list);
  return known;
}

}  // namespace dettax
