#include "harness/launch/link_watch.h"

#include <cerrno>

#include <poll.h>
#include <sys/eventfd.h>

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

LinkWatch::LinkWatch(const std::vector<int>& descriptors)
    : stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      closed_ns_(descriptors.size()),
      thread_([this, descriptors] { watch(descriptors); }) {}

LinkWatch::~LinkWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::optional<Clock::time_point> LinkWatch::closed(size_t index) const {
  const int64_t at_ns = closed_ns_[index].load();
  if (at_ns == 0) return std::nullopt;
  return Clock::time_point(std::chrono::nanoseconds(at_ns));
}

void LinkWatch::watch(std::vector<int> descriptors) {
  std::vector<pollfd> waits;
  waits.reserve(descriptors.size() + 1);
  for (const int descriptor : descriptors) waits.push_back({descriptor, POLLRDHUP, 0});
  waits.push_back({stop_.get(), POLLIN, 0});
  for (;;) {
    // Without this knowledge a message names another rank of the same failure: no reason to end.
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits.back().revents != 0) return;
    const int64_t now_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
            .count();
    for (size_t i = 0; i < closed_ns_.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) continue;
      closed_ns_[i].store(now_ns);
      waits[i].fd = -1;  // poll passes over it
    }
  }
}

}  // namespace dettax
