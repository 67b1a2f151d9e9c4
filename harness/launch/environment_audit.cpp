#include "harness/launch/environment_audit.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace dettax {

Variables start_environment() {
  Variables variables;
  std::ifstream file("/proc/self/environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

Variables standing_values(const Variables& replaced) {
  Variables standing;
  for (const auto& [name, value] : replaced) {
    const char* now = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets any
    if (now != nullptr) standing[name] = now;
  }
  return standing;
}

std::string found_setting(const std::string& name, const Variables& at_start) {
  const char* now = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets any
  const auto start = at_start.find(name);
  if (start == at_start.end())
    return now == nullptr ? "(not set)" : fmt::format("(set too late: {})", now);
  if (now == nullptr || start->second != now)
    return fmt::format("(changed too late: {})", now == nullptr ? "not set" : now);
  return start->second;
}

}  // namespace dettax
