#pragma once

#include <optional>
#include <string>
#include <utility>

#include "harness/launch/descriptor.h"

namespace dettax {

// Lines of text over a stream socket, in both directions. Used by one thread.
class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}
  // Two connected ends.
  static std::pair<Channel, Channel> pair();

  int descriptor() const { return socket_.get(); }
  // Gives the descriptor away; the channel is closed for its owner.
  Descriptor release() { return std::move(socket_); }
  void close() { socket_.reset(); }

  // `line` without its end. False when the other side is gone.
  bool send(const std::string& line);

  enum class Event { line, closed, timeout, interrupt };
  struct Received {
    Event event = Event::closed;
    std::string line;
  };
  // Blocks, without using a core, until a line is there, the other side is gone, the time is up or
  // `interrupt` (a descriptor that turns readable; -1: none) says so. Without a time it waits for
  // ever.
  Received receive(std::optional<double> timeout_seconds = std::nullopt, int interrupt = -1);

 private:
  std::optional<std::string> take_line();

  Descriptor socket_;
  std::string pending_;  // received and not yet taken
};

}  // namespace dettax
