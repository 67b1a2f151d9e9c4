#pragma once

#include "results/record.h"

namespace dettax {

// Fills `taxes[].published`, `verdict` of a record from its estimates, evidence and limits; never
// from anything else, so that judging the same record twice gives the same words. Order: error
// stays error; a deterministic arm without evidence = fail with exit code 5; control differs from
// fast beyond its interval = inconclusive; limit: upper end under it = pass, lower end over it =
// fail, else inconclusive with the time it would take; no limit: pass when the interval is no wider
// than twice the target, else inconclusive.
void judge(Record& record, const Suite& suite);

}  // namespace dettax
