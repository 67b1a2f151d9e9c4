#pragma once

#include "results/record.h"

namespace dettax {

// Fills `taxes[].published` and `verdict` of a record from its estimates, evidence and limits;
// never from anything else, so that judging the same record twice gives the same words. What comes
// first decides:
//  1. a verdict that is already error or skipped stays, and nothing is published;
//  2. an arm that broke (failure_code): its reason, no overhead number;
//  3. a knob that was found to run otherwise than asked: mode_not_engaged;
//  4. a mode that claims to be reproducible without evidence, or with evidence against it: exit
//     code 5, its tax is not published;
//  5. no mode claims to be reproducible: no_claim. Beside modes that do, one that does not is
//     neither judged nor is its tax published;
//  6. a precision that is emulated: passes on its bits, and no tax is published;
//  7. fewer than three rounds: no_measurement;
//  8. per arm: lower end over the limit = fail; upper end under it and the smallest detectable tax
//     not above it = pass; else inconclusive with the time it would take. Without a limit: pass when
//     the interval is no wider than twice the target. An arm whose verdict is worse (exit_code.h)
//     speaks for the case;
//  9. the control arm differs from fast: inconclusive instead of a pass or a fail.
//
// The control differs when its interval excludes 1 and its ratio is further from 1 than
// target_half_width, the resolution that was asked for. A smaller difference that is nevertheless
// certain (two processes are never quite alike) would make every case inconclusive once it is
// measured long enough; instead it widens the interval that the limit is compared with, and is the
// least that can be detected.
void judge(Record& record, const Suite& suite);

}  // namespace dettax
