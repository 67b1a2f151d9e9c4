#pragma once

#include <cstdint>
#include <memory>

#include "harness/evidence/ledger_source.h"

namespace dettax {

// Steps [from, end) of a ledger, as if it covered no others. The ledger must outlive it.
std::unique_ptr<LedgerSource> span_of_ledger(LedgerSource& ledger, int64_t from, int64_t end);

}  // namespace dettax
