#pragma once

#include <string>

#include "harness/evidence/ledger.h"

namespace dettax {

// Why the heads make bits incomparable, in the order in which it explains most; empty if they do not. With `other_layout` threads,
// micro-batches and data-parallel ranks may differ, with `other_environment` what it was built with and runs on.
std::string head_difference(const LedgerHead& a, size_t ranks_of_a, const LedgerHead& b,
                            size_t ranks_of_b, const CompareOptions& options);

}  // namespace dettax
