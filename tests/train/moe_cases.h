#pragma once

#include <vector>

#include "small_cases.h"

namespace dettax::testing_support {

// Eight samples in micro-batches of one.
Case expert_case(const Model& model);
// Models with every kind of mixture of experts: plain, behind a dense layer and beside a shared expert, balanced, dropping.
std::vector<Case> expert_cases();

// Enough tokens for threads to race for rows.
Case racing_experts(const Layout& layout);

}  // namespace dettax::testing_support
