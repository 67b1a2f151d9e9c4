#pragma once

#include <iosfwd>

#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

// What a run of this suite would do: cases, arms, memory and time as estimated, and what would be refused and why. Starts nothing.
// Returns how many cases would run.
size_t write_plan(std::ostream& out, const Suite& suite, int64_t available_bytes, int cores);

// Rough time of one training step: arithmetic at half of what vectors of eight floats could do.
double estimate_step_seconds(const Case& planned, int cores);
// Of a whole case: start, warm-up, measuring to its budget, evidence.
double estimate_case_seconds(const Case& planned, const Suite& suite, int cores);

}  // namespace dettax
