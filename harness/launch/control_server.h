#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/launch/channel.h"

namespace dettax {

// Environment variable that carries the token to the ranks of a group.
inline constexpr const char* kTokenVariable = "DETTAX_TOKEN";

// Where the ranks of one group connect to: a TCP port on every address of this host, and a secret
// that only the processes started for this group know.
class ControlServer {
 public:
  // `address`: the one that other hosts are to use; empty: each of this host's addresses is tried.
  explicit ControlServer(const std::string& address = "");

  // "192.0.2.1:4711,127.0.0.1:4711", best first: for connect_to_launcher().
  const std::string& addresses() const { return addresses_; }
  const std::string& token() const { return token_; }

  int descriptor() const { return socket_.get(); }
  // A connection that waits, if there is one.
  std::optional<Channel> accept();

 private:
  Descriptor socket_;
  std::string addresses_, token_;
};

// A connection to the first of these addresses that answers. Error{infrastructure} that names them
// if none does within `seconds`.
Channel connect_to_launcher(const std::string& addresses, double seconds);

// Whether this host knows the name or address.
bool resolves(const std::string& host);

}  // namespace dettax
