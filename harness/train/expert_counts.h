#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/step_context.h"

namespace dettax {

// Where ranks share sequences, each has some of the choices that an expert's capacity and load count: tells the plan which choices come
// before those here, and returns how often each expert was chosen on all ranks, [samples, experts]. Collective over the context ranks.
std::vector<int32_t> count_over_context(StepContext& c, const ExpertActivations& e);

}  // namespace dettax
