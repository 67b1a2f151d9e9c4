#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/analysis/acceptance/observe.h"

namespace dettax {

// A setting in which a node differs from most of its fleet; `node` is empty where no value has a majority, so that no node can be
// called the odd one.
struct ConfigurationDifference {
  std::string node, setting, value, fleet_value;
  std::map<std::string, std::string> value_of;  // node -> value, where no value has a majority
};

// Variables, software, machine and what the arms engaged, node against node. A fleet of one has no differences.
std::vector<ConfigurationDifference> configuration_differences(
    const std::vector<NodeObservation>& observations);

}  // namespace dettax
