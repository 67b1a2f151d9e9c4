#pragma once

#include <optional>
#include <string>

#include "harness/plan/case.h"

namespace dettax {

// The case as it lies where all its ranks are threads of one process, whatever nodes they stand for.
Case all_on_one_node(Case planned);

// What it means for step times that the ranks of a node have more threads than it has cores; empty
// if they do not. It is allowed: 4 ranks on 2 cores give the same bits as on 4.
std::string oversubscription(const Case& planned, int64_t cores);

// Reason why there are so many more threads that the case is refused, or nothing.
std::optional<std::string> crowding(const Case& planned, int64_t cores);

}  // namespace dettax
