#include "harness/launch/rank_faults.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/launch/process.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// Connections that end within this time of the first went with it; the others followed it, as when
// mpirun ends the ranks that are left.
constexpr std::chrono::milliseconds kTogether{50};
constexpr size_t kNamedRanks = 8;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string rank_list(const std::vector<const RankLink*>& links) {
  std::vector<std::string> ranks;
  for (const RankLink* link : links) ranks.push_back(fmt::format("{}", link->hello.rank));
  const bool cut = ranks.size() > kNamedRanks;
  if (cut) ranks.resize(kNamedRanks);
  return fmt::format("{} {}{}", links.size() == 1 ? "rank" : "ranks", join(ranks, ", "),
                     cut ? ", ..." : "");
}

std::vector<const RankLink*> of_host(const std::vector<RankLink>& links, const std::string& host) {
  std::vector<const RankLink*> found;
  for (const RankLink& link : links) {
    if (link.hello.host == host) found.push_back(&link);
  }
  return found;
}

bool several_hosts(const std::vector<RankLink>& links) {
  return std::any_of(links.begin(), links.end(), [&](const RankLink& link) {
    return link.hello.host != links.front().hello.host;
  });
}

// A rank alone, or its whole host where all of that went.
std::string blamed(const std::vector<RankLink>& links, const std::vector<const RankLink*>& gone) {
  const std::string& host = gone.front()->hello.host;
  const bool one_host = std::all_of(gone.begin(), gone.end(),
                                    [&](const RankLink* link) { return link->hello.host == host; });
  if (gone.size() == 1 && of_host(links, host).size() > 1) return name_of(*gone.front());
  if (one_host && several_hosts(links) && gone.size() == of_host(links, host).size()) {
    return fmt::format("host {} with {}", host, rank_list(gone));
  }
  return gone.size() == 1 ? name_of(*gone.front()) : rank_list(gone);
}

}  // namespace

std::string name_of(const RankLink& link) {
  return fmt::format("rank {} on host {}", link.hello.rank, link.hello.host);
}

std::string position_words(const Heartbeat& at) {
  if (at.step < 0) return "before its first step";
  if (at.op == "idle") return fmt::format("after step {}", at.step);
  return at.op.empty() ? fmt::format("in step {}", at.step)
                       : fmt::format("in step {}, op {}", at.step, at.op);
}

std::string death_words(const std::vector<RankLink>& links) {
  const RankLink* first = nullptr;
  for (const RankLink& link : links) {
    if (link.last_words) {
      return fmt::format("{} {} {}", name_of(link), signal_words(link.last_words->signal),
                         position_words(link.at));
    }
    if (link.closed && (first == nullptr || *link.closed < *first->closed)) first = &link;
  }
  if (first == nullptr) return "a rank ended";
  std::vector<const RankLink*> gone;
  for (const RankLink& link : links) {
    const bool same_host = link.hello.host == first->hello.host;
    if (same_host && link.closed && *link.closed - *first->closed < kTogether)
      gone.push_back(&link);
  }
  return fmt::format("{} ended without a word {}", blamed(links, gone), position_words(first->at));
}

std::string delay_words(const std::vector<RankLink>& links, Clock::time_point now,
                        double silent_seconds, double no_progress_seconds) {
  std::vector<const RankLink*> silent;
  for (const RankLink& link : links) {
    if (!link.reply && seconds_between(link.heard, now) > silent_seconds) silent.push_back(&link);
  }
  if (!silent.empty()) {
    const RankLink* longest =
        *std::min_element(silent.begin(), silent.end(),
                          [](const RankLink* a, const RankLink* b) { return a->heard < b->heard; });
    return fmt::format("{} does not answer any more: last heard of {:.1f} s ago, {}",
                       blamed(links, silent), seconds_between(longest->heard, now),
                       position_words(longest->at));
  }
  const auto progress = [](const RankLink& link) {
    return std::tuple(link.reply.has_value(), link.at.step, link.at.ops);
  };
  const auto least = std::min_element(
      links.begin(), links.end(),
      [&](const RankLink& a, const RankLink& b) { return progress(a) < progress(b); });
  return fmt::format("{} hung {} (no progress for {:.1f} s)", name_of(*least),
                     position_words(least->at), no_progress_seconds);
}

std::string earliest_finding(const std::vector<Reply>& replies) {
  const auto place = [](const Reply& reply) {
    return std::tuple(reply.found_step < 0, reply.found_step, reply.found_op);
  };
  return std::min_element(replies.begin(), replies.end(),
                          [&](const Reply& a, const Reply& b) { return place(a) < place(b); })
      ->message;
}

}  // namespace dettax
