#pragma once

#include <cstdint>

#include "harness/plan/case.h"

namespace dettax {

// Floats of all activations of a rank, on average over the stages of a pipeline (harness/train/activations.h).
int64_t activation_floats(const Case& planned, const Mode& mode);

}  // namespace dettax
