#pragma once

#include <cstddef>
#include <iosfwd>

#include "results/record.h"

namespace dettax {

// Where a case's deterministic arms lose their time: by mechanism and place, if it was profiled; knobs against mechanisms and from fast to
// the mode, if its knobs were turned. Nothing if it was neither. `place` is the case's number in the page.
void write_causes(std::ostream& out, const Record& record, size_t place);

}  // namespace dettax
