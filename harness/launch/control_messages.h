#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "harness/launch/protocol.h"

namespace dettax {

// What a rank in a process of its own says to its launcher besides replies, and the launcher's answer
// to its first words. Lines of JSON on the same socket as the requests.

// First of all: who this is, where it runs and what it may use there.
struct Hello {
  std::string token;  // that the launcher gave to its processes and to nobody else
  int rank = 0, size = 1, local_rank = 0;
  std::string host;     // name of the node
  std::string machine;  // the same for all hosts that are one machine, as namespaces are
  int64_t process_id = 0;
  std::vector<int> cores;                        // usable, neighbours next to each other
  std::vector<int> numa_nodes;                   // [core]
  int devices = 0;                               // accelerators that are visible
  std::map<std::string, std::string> variables;  // recorded ones that are set
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Welcome {
  double heartbeat_seconds = 1;  // between two signs of life while a request is worked on
  bool spin = false;             // there is a core for every thread of them
  std::vector<int> cores;        // of each compute thread; empty: not bound
  std::vector<int> node_of_rank;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

struct Heartbeat {
  int64_t step = -1;
  int64_t ops = 0;
  std::string op;
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

// Of a rank that a fatal signal struck.
struct LastWords {
  int signal = 0;
  Heartbeat at;
  friend bool operator==(const LastWords&, const LastWords&) = default;
};

using RankMessage = std::variant<Hello, Heartbeat, LastWords, Reply>;

std::string encode(const Hello& value);
std::string encode(const Heartbeat& value);
std::string encode(const Welcome& value);
// Error{internal} for what is no message of this version.
RankMessage decode_rank_message(const std::string& line);
Welcome decode_welcome(const std::string& line);

}  // namespace dettax
