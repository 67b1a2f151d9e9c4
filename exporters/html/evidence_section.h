#pragma once

#include <iosfwd>
#include <vector>

#include "results/record.h"

namespace dettax {

// Over which scopes each judged arm's bits agreed, a row a case and arm, and where they first differed.
void write_evidence_section(std::ostream& out, const std::vector<const Record*>& records);

}  // namespace dettax
