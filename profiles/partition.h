#pragma once

#include <cstdint>
#include <vector>

#include "profiles/steps.h"
#include "profiles/trace.h"
#include "results/attribution.h"

namespace dettax {

// What one key holds of one step of one rank.
struct Cell {
  uint32_t path = 0, ordinal = 0;
  Mechanism mechanism = Mechanism::compute;
  int64_t owned_ns = 0;  // time that this work, or the wait for it, owns
  int64_t busy_ns =
      0;  // length of the work, hidden or not; whole pieces, in the step that they begin in
  int64_t count = 0;          // pieces of work
  uint32_t longest_name = 0;  // of its pieces of work: the name that took longest
  int64_t longest_ns = 0;
};

struct StepPartition {
  StepWindow window;
  std::vector<Cell> cells;  // each (path, ordinal, mechanism) once, in that order
};

// When the last rank came to a collective, for each span; kNoOtherRank where it is not known.
inline constexpr int64_t kNoOtherRank = INT64_MIN;
using LastArrivals = std::vector<int64_t>;

// Every nanosecond of every complete step to exactly one owner. Where several pieces of work run at once the owner is the one of the
// highest kind, compute before fill before communication before copy and memset, then the one that began first, then the one on the
// lowest stream. A fill by a kernel ranks with compute, since it takes the place of compute on its stream.
// Communication is split at the time of last arrival into waiting and transfer. Idle time is keyed by the work that ends it, and called
// by what kept that work: the host (waiting for the device, profiling, allocating, anything else), the call that launched it, the way
// from call to device, or a gap on a device that had been given the work in time.
// The cells of a step add up to its length; that they do not is an Error{internal}.
std::vector<StepPartition> partition(const Trace& trace, const std::vector<StepWindow>& windows,
                                     const LastArrivals& last_arrivals);

// Throws Error{internal} unless the owned times of the cells add up to the window's length exactly.
void check_partition(const StepPartition& step);

}  // namespace dettax
