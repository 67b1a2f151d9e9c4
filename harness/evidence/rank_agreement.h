#pragma once

#include "harness/evidence/ledger.h"
#include "results/record.h"

namespace dettax {

// Whether the ranks of one run hold equal bits where a reduction made them equal: its results, loss, gradient norm and state.
RankAgreement ranks_agreement(const Ledger& ledger);

}  // namespace dettax
