#pragma once

#include <filesystem>

#include "results/record.h"

namespace dettax {

// Fills in what arms tell beside each other: which variants replaced which (ArmResult::changed), and what one knob alone costs where two
// arms differ in nothing else (Record::contrasts). `folder` holds the ledgers.
void compare_arms(Record& record, const std::filesystem::path& folder, double confidence);

}  // namespace dettax
