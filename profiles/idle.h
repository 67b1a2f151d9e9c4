#pragma once

#include <cstdint>
#include <vector>

#include "profiles/interval_set.h"
#include "profiles/trace.h"
#include "results/attribution.h"

namespace dettax {

// A part of a stretch without work, and what it is called.
struct IdlePiece {
  int64_t start_ns, end_ns;
  Mechanism cause;
};

// Says why nothing ran, from what the host did meanwhile. The trace must outlive it.
class IdleCauses {
 public:
  // `launches` as launches_of_work gives it.
  IdleCauses(const Trace& trace, const std::vector<int64_t>& launches);

  // The stretch [start, end) cut by cause; the work of index `next` ends it. The pieces tile the stretch, in no promised order.
  std::vector<IdlePiece> pieces(int64_t start_ns, int64_t end_ns, size_t next) const;

 private:
  struct Thread {
    IntervalSet synchronize, allocate;
  };
  void host_pieces(int64_t start_ns, int64_t end_ns, uint32_t thread,
                   std::vector<IdlePiece>& pieces) const;

  const Trace& trace_;
  const std::vector<int64_t>& launches_;
  std::vector<Thread> threads_;  // by stream
  IntervalSet profiler_;
};

}  // namespace dettax
