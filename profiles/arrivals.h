#pragma once

#include <string>
#include <vector>

#include "profiles/partition.h"
#include "profiles/trace.h"

namespace dettax {

// When the last rank came to each collective, for every span of every trace of one arm (one trace a rank). A collective is the same on
// several ranks if its group and sequence number agree, or else its group, its kind and its place within the step. A rank comes to it with
// its first span of it. Of messages, broadcasts and sums to one rank those that only give may leave before others come, for whom they then
// did not wait.
// It stays unknown where a member's trace is missing, where the group is not told, on ranks of different hosts, and where one rank left
// before another came, which no common clock can show. `notes` gains a line for each of these that happened.
std::vector<LastArrivals> last_arrivals(const std::vector<Trace>& traces,
                                        std::vector<std::string>& notes);

}  // namespace dettax
