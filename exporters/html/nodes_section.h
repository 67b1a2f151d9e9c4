#pragma once

#include <iosfwd>
#include <vector>

#include "results/record.h"

namespace dettax {

// The map of a fleet, a row a node, the odd ones marked and in front; nothing for records of a single node.
void write_nodes_section(std::ostream& out, const std::vector<const Record*>& records);

}  // namespace dettax
