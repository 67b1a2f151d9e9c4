#pragma once

#include <iosfwd>

#include "results/record.h"

namespace dettax {

// Kernels and collectives of the case's shape, each alone, beside what the machine allows. Nothing if they were not measured.
void write_kernels(std::ostream& out, const Record& record);

}  // namespace dettax
