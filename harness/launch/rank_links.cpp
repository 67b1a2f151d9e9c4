#include "harness/launch/rank_links.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// How often it is looked whether the process that starts the ranks has ended.
constexpr double kLauncherCheckSeconds = 0.2;
constexpr size_t kNamedRanks = 8;  // of those that are missing, in a message

int milliseconds(double seconds) {
  return static_cast<int>(std::clamp(std::ceil(seconds * 1000), 0.0, 1e9));
}

// False when `interrupt` is readable.
bool wait_for(std::vector<pollfd>& waits, double seconds, int interrupt) {
  waits.push_back({interrupt, POLLIN, 0});
  while (::poll(waits.data(), waits.size(), milliseconds(seconds)) < 0) {
    if (errno != EINTR) throw_errno("cannot wait for the ranks");
  }
  return waits.back().revents == 0;
}

[[noreturn]] void throw_interrupted() { throw Error(ErrorKind::infrastructure, "interrupted"); }

class Gathering {
 public:
  Gathering(ControlServer& server, int ranks)
      : server_(server), found_(static_cast<size_t>(ranks)) {}

  bool complete() const { return missing() == 0; }
  bool wait(double seconds, int interrupt);
  void take();
  [[noreturn]] void throw_incomplete(const std::string& why) const;
  std::vector<RankLink> links();

 private:
  struct Stranger {
    Channel channel;
    bool gone = false;
  };
  size_t missing() const;
  void greet(Stranger& stranger);
  void seat(Channel channel, Hello hello);

  ControlServer& server_;
  std::vector<std::optional<RankLink>> found_;
  std::vector<Stranger> strangers_;  // connected, not yet known
};

size_t Gathering::missing() const {
  return static_cast<size_t>(
      std::count_if(found_.begin(), found_.end(), [](const auto& link) { return !link; }));
}

bool Gathering::wait(double seconds, int interrupt) {
  std::vector<pollfd> waits = {{server_.descriptor(), POLLIN, 0}};
  for (const Stranger& stranger : strangers_) {
    waits.push_back({stranger.channel.descriptor(), POLLIN, 0});
  }
  return wait_for(waits, seconds, interrupt);
}

void Gathering::take() {
  while (auto channel = server_.accept()) strangers_.push_back({std::move(*channel)});
  for (Stranger& stranger : strangers_) greet(stranger);
  std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.gone; });
}

// One that does not know the token is none of ours: a port scan, or another run's rank.
void Gathering::greet(Stranger& stranger) {
  const Channel::Received received = stranger.channel.receive(0);
  if (received.event == Channel::Event::timeout) return;
  stranger.gone = true;
  if (received.event != Channel::Event::line ||
      received.line.find(server_.token()) == std::string::npos) {
    return;
  }
  RankMessage message = decode_rank_message(received.line);
  auto* hello = std::get_if<Hello>(&message);
  if (hello != nullptr && hello->token == server_.token()) {
    seat(std::move(stranger.channel), std::move(*hello));
  }
}

void Gathering::seat(Channel channel, Hello hello) {
  const int ranks = static_cast<int>(found_.size());
  if (hello.size != ranks) {
    throw Error(ErrorKind::infrastructure,
                fmt::format("expected {} ranks, found {}, says rank {} on host {}", ranks,
                            hello.size, hello.rank, hello.host));
  }
  if (hello.rank < 0 || hello.rank >= ranks) {
    throw Error(ErrorKind::infrastructure,
                fmt::format("host {} has a rank {} of {}", hello.host, hello.rank, ranks));
  }
  auto& place = found_[static_cast<size_t>(hello.rank)];
  if (place) {
    throw Error(ErrorKind::infrastructure,
                fmt::format("rank {} is there twice: on host {} (process {}) and on host {} "
                            "(process {})",
                            hello.rank, place->hello.host, place->hello.process_id, hello.host,
                            hello.process_id));
  }
  place.emplace(RankLink{std::move(channel), std::move(hello), {}, Clock::now(), {}, {}, {}});
}

void Gathering::throw_incomplete(const std::string& why) const {
  std::vector<std::string> absent;
  for (size_t rank = 0; rank < found_.size(); ++rank) {
    if (!found_[rank]) absent.push_back(fmt::format("{}", rank));
  }
  const bool cut = absent.size() > kNamedRanks;
  if (cut) absent.resize(kNamedRanks);
  throw Error(ErrorKind::infrastructure,
              fmt::format("expected {} ranks, found {}: {}; missing: rank {}{}", found_.size(),
                          found_.size() - missing(), why, join(absent, ", "), cut ? ", ..." : ""));
}

std::vector<RankLink> Gathering::links() {
  std::vector<RankLink> links;
  links.reserve(found_.size());
  for (auto& link : found_) links.push_back(std::move(*link));
  return links;
}

void note(RankLink& link, RankMessage message) {
  link.heard = Clock::now();
  if (auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    link.at = std::move(*heartbeat);
  } else if (auto* words = std::get_if<LastWords>(&message)) {
    link.at = words->at;
    link.last_words = std::move(*words);
  } else if (auto* reply = std::get_if<Reply>(&message)) {
    link.reply = std::move(*reply);
  } else {
    throw Error(ErrorKind::internal, "rank protocol: a second hello");
  }
}

// All lines that are there.
void drain(RankLink& link) {
  while (!link.closed) {
    Channel::Received received = link.channel.receive(0);
    if (received.event == Channel::Event::timeout) return;
    if (received.event == Channel::Event::closed) {
      link.closed = Clock::now();
    } else if (!received.line.empty()) {
      note(link, decode_rank_message(received.line));
    }
  }
}

}  // namespace

std::vector<RankLink> gather_ranks(ControlServer& server, int ranks, Process& launcher,
                                   double seconds, int interrupt) {
  Gathering gathering(server, ranks);
  const Clock::time_point start = Clock::now();
  for (;;) {
    const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    if (!gathering.wait(std::min(left, kLauncherCheckSeconds), interrupt)) throw_interrupted();
    gathering.take();
    if (gathering.complete()) return gathering.links();
    if (const auto status = launcher.wait(0)) {
      gathering.throw_incomplete("the launcher " + describe_exit(*status));
    }
    if (left <= 0) gathering.throw_incomplete(fmt::format("after {:.1f} s", seconds));
  }
}

bool hear(std::vector<RankLink>& links, double seconds, int interrupt) {
  std::vector<pollfd> waits;
  for (const RankLink& link : links) {
    if (!link.closed) waits.push_back({link.channel.descriptor(), POLLIN, 0});
  }
  if (!wait_for(waits, seconds, interrupt)) return false;
  for (RankLink& link : links) drain(link);
  return true;
}

}  // namespace dettax
