#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// What each mode set for its processes, and what stood there before; a line an arm.
std::vector<std::string> environment_words(const Record& record);

// For an arm that broke: the variants that replaced those of the fast arm.
std::vector<std::string> changed_variant_words(const Record& record);

// What one knob alone costs, where two arms differ in nothing else.
std::vector<std::string> contrast_words(const Record& record);

}  // namespace dettax
