#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// Bad news first: broken and void, over the limit, undecided, passed, skipped; else as planned.
std::vector<const Record*> by_severity(const std::vector<Record>& records);
// "5 cases: 1 error, 1 fail, 3 pass"
std::string verdict_counts(const std::vector<Record>& records);
// Of the first case that ran; null if none did.
const Record* first_that_ran(const std::vector<Record>& records);

}  // namespace dettax
