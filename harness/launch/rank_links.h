#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/control_messages.h"
#include "harness/launch/control_server.h"
#include "harness/launch/process.h"

namespace dettax {

// The launcher's end of one rank.
struct RankLink {
  Channel channel;
  Hello hello;
  Heartbeat at;  // last heard of it
  std::chrono::steady_clock::time_point heard;
  std::optional<Reply> reply;  // to the request that is going on
  std::optional<LastWords> last_words;
  std::optional<std::chrono::steady_clock::time_point> closed;  // when its connection ended
};

// Waits until every rank of a group has connected and said hello; index = rank. Error that names the
// ranks that are missing when `seconds` are over or `launcher`, the process that starts them, has
// ended; {infrastructure} "interrupted" when `interrupt` turns readable.
std::vector<RankLink> gather_ranks(ControlServer& server, int ranks, Process& launcher,
                                   double seconds, int interrupt);

// Takes in what the ranks have said: waits up to `seconds` for the first of it, then takes all that
// is there. False when `interrupt` turned readable.
bool hear(std::vector<RankLink>& links, double seconds, int interrupt);

}  // namespace dettax
