#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record.h"

namespace dettax {

// What two records must have in common to be compared, name and value, in the order in which differences are told. The host's name is
// left out: a container gets a new one each time. So are version and commit: they are what is compared. Of the variables the job's
// own are left out.
std::vector<std::pair<std::string, std::string>> provenance(const Environment& environment);

inline constexpr const char* kUnset = "(unset)";  // a variable that only others have

}  // namespace dettax
