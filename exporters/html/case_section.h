#pragma once

#include <iosfwd>

#include "results/record.h"

namespace dettax {

// All of one case: verdict, taxes, step times, evidence by scope, knobs, what qualifies it. `place` is its number in the page.
void write_case_section(std::ostream& out, const Record& record, size_t place, bool open);

}  // namespace dettax
