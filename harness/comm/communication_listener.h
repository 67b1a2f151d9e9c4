#pragma once

#include <cstdint>
#include <string_view>

#include "harness/comm/operation_kind.h"

namespace dettax {

// One rank's part in one operation. Group, sequence and size are alike on every rank that takes part.
struct Communication {
  OperationKind kind = OperationKind::all_reduce;
  std::string_view
      group;  // lives as long as the communicator; of messages the pair: "pipeline.0 1>2"
  int64_t sequence = 0;       // how many the group, or of messages the pair, had before it
  int64_t group_size = 0;     // ranks that take part
  int64_t payload_bytes = 0;  // of this rank
  // Where it went on beside its caller: how long ago it began and ended. Both 0: it did not.
  int64_t began_ns_ago = 0, ended_ns_ago = 0;
};

// Hears what one rank does in its groups, on the rank's own thread, and changes nothing. Groups of one rank tell nothing.
class CommunicationListener {
 public:
  virtual ~CommunicationListener() = default;
  // From here on the thread does nothing but an operation, or wait for one.
  virtual void on_wait() = 0;
  // The operation is over and the thread goes on. Not called where it failed.
  virtual void on_communicated(const Communication& communication) = 0;
  // A message was handed over and may be on its way for long. Where it is waited for, the two above follow.
  virtual void on_handed_over(const Communication& message) = 0;
};

}  // namespace dettax
