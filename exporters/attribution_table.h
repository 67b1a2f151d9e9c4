#pragma once

#include <iosfwd>

#include "exporters/table.h"
#include "results/attribution.h"

namespace dettax {

// What `dettax attribute` prints: both step times and their difference; by mechanism, with the total; the keys with the largest
// differences, at most `keys`; then what has to be known of the traces and what may be done.
void write_attribution(std::ostream& out, const Attribution& attribution, const TableStyle& style,
                       size_t keys = 15);

}  // namespace dettax
