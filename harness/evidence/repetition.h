#pragma once

#include <cstdint>
#include <string>

#include "harness/evidence/ledger_source.h"

namespace dettax {

// Whether a run that was made again is the one that was recorded.
struct Repetition {
  int64_t compared = 0;  // fingerprints
  std::string
      first_difference;  // "step 3, rank 0, state: layer0.mlp.up.weight"; empty: there is none
};

// Holds every fingerprint that was recorded of the state in front of step `from`, and of the steps [from, end), against that of the new
// run, which begins there and may have been looked at more closely. Each must be there.
Repetition compare_repetition(LedgerSource& recorded, LedgerSource& again, int64_t from,
                              int64_t end);

}  // namespace dettax
