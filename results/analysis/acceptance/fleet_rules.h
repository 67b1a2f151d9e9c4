#pragma once

// The parts of judge_fleet.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/analysis/acceptance/findings.h"

namespace dettax {

inline constexpr double kSure = 2.576;  // standard errors: 99 %, two-sided

// Slow is not nondeterministic: whoever reads of one wants to know of the other.
std::string bits_words(const Record& record);

// Slow ranks of a case: what was found for them explains a slow node.
using SlowRanks = std::map<std::pair<std::string, std::string>, size_t>;  // node, case -> finding

// A rank beside its node's median rank and, where other nodes ran the case, beside the same rank there: what a layout gives one rank
// more to do is no node's fault.
SlowRanks judge_ranks(const std::vector<NodeObservation>& all, const FleetSetup& setup,
                      double alarm_share, const AcceptanceRules& rules, FindingList& list);

void judge_memory_of_fleet(const std::vector<NodeObservation>& all, const FleetSetup& setup,
                           const AcceptanceRules& rules, FindingList& list);

// A case, or a value of one, that some nodes have and others lack or refused.
void judge_presence(const std::vector<NodeObservation>& all, FindingList& list);

}  // namespace dettax
