#include "results/provenance.h"

#include <algorithm>

#include "results/environment.h"

namespace dettax {

std::vector<std::pair<std::string, std::string>> provenance(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> values = {
      {"cpu_model", environment.cpu_model}, {"cores", std::to_string(environment.cores)},
      {"kernel", environment.kernel},       {"simd_target", environment.simd_target},
      {"compiler", environment.compiler},   {"build_type", environment.build_type}};
  const std::vector<std::string>& jobs = job_variables();
  for (const auto& [name, value] : environment.variables) {
    if (std::ranges::find(jobs, name) == jobs.end()) values.emplace_back(name, value);
  }
  return values;
}

}  // namespace dettax
