#pragma once

#include <cstdint>

#include "results/record.h"

namespace dettax {

// Steps of a block (over all ranks) whose host time is shorter than the device's work in them: the host's clock was read before the device
// had finished, so that the cost lands in a later step and no step's time means anything. Only the block as a whole counts then.
struct Synchronisation {
  int64_t steps = 0;
  int64_t unsynchronised = 0;
  bool trusted() const { return unsynchronised == 0; }
};
Synchronisation synchronisation(const Block& block);

// Seconds a step over the whole block, of the slowest rank: what is left where steps are not synchronised.
double mean_step_seconds(const Block& block);

}  // namespace dettax
