#pragma once

#include <string>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// Paths (without "micro<i>/") of the ops that an observed step of this case issues under this mode; every path that can be named
// at all where the layout has more axes than data parallelism.
std::vector<std::string> op_paths(const Case& planned, const Mode& mode);

}  // namespace dettax
