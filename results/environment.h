#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// Names of environment variables that are recorded; no other is ever read (conventions: by
// allow-list).
const std::vector<std::string>& recorded_variables();
// Recorded as well, but no part of what two runs must have in common: which job a run belonged to.
const std::vector<std::string>& job_variables();

// Where the machine describes itself; another root in tests.
struct EnvironmentSources {
  std::filesystem::path proc = "/proc";
};

// `simd_target` is what the device says it runs. What cannot be found out stays "unknown" or 0.
Environment collect_environment(const std::string& simd_target,
                                const EnvironmentSources& sources = {});

}  // namespace dettax
