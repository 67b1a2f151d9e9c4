#include "harness/cli/injections.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/parse_number.h"
#include "harness/base/text.h"
#include "harness/launch/fault.h"
#include "harness/launch/run_case.h"
#include "harness/train/op_paths.h"

namespace dettax {
namespace {

// The op of an injection without "micro<i>/", and whether the case has that micro-batch.
struct Place {
  std::string op;
  bool micro_batch_exists = true;
};

Place place_of(const std::string& op, int64_t micro_batches) {
  constexpr std::string_view kPrefix = "micro";
  const size_t slash = op.find('/');
  if (!op.starts_with(kPrefix) || slash == std::string::npos) return {op};
  int64_t index = -1;
  const std::string number = op.substr(kPrefix.size(), slash - kPrefix.size());
  if (!parse_number(number, index)) return {op};
  // The paths of a single micro-batch have no such part.
  return {op.substr(slash + 1), micro_batches > 1 && index >= 0 && index < micro_batches};
}

// Paths and their beginnings: an injection may name a phase or a layer.
std::vector<std::string> nameable(const std::vector<std::string>& paths) {
  std::vector<std::string> names = paths;
  for (const std::string& path : paths) {
    for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      const std::string part = path.substr(0, at);
      if (std::find(names.begin(), names.end(), part) == names.end()) names.push_back(part);
    }
  }
  return names;
}

// `; did you mean "forward/layer1/attention"?`, also for who wrote "attention".
std::string suggestion(const std::string& op, const std::vector<std::string>& paths) {
  std::optional<std::string> near = nearest(op, nameable(paths));
  for (auto path = paths.begin(); !near && path != paths.end(); ++path) {
    const std::vector<std::string> name = {path->substr(path->rfind('/') + 1)};
    if (nearest(op, name)) near = *path;
  }
  return near ? fmt::format("; did you mean \"{}\"?", *near)
              : fmt::format("; such as \"{}\" is one", paths.front());
}

std::string fault_of(const Injection& injection, const ArmSpec& arm) {
  const Place place = place_of(injection.op, arm.planned.micro_batches());
  if (!place.micro_batch_exists) {
    return fmt::format("\"{}\": a step has {}; they count from 0, and a single one is not named",
                       injection.op, format_things(arm.planned.micro_batches(), "micro-batch"));
  }
  const std::vector<std::string> paths = op_paths(arm.planned, arm.mode);
  const bool found = std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return path.starts_with(place.op);
  });
  if (found) return "";
  return fmt::format("no op of arm {} begins with \"{}\"{}", arm.arm, place.op,
                     suggestion(place.op, paths));
}

}  // namespace

void check_injections(const Suite& suite) {
  for (const Case& planned : suite.cases) {
    if (planned.injections.empty()) continue;
    const std::vector<ArmSpec> arms = arm_specs(planned, suite);
    for (size_t i = 0; i < planned.injections.size(); ++i) {
      const Injection& injection = planned.injections[i];
      for (const ArmSpec& arm : arms) {
        if (injection.op.empty() || !strikes_arm(injection, arm)) continue;
        const std::string fault = fault_of(injection, arm);
        if (fault.empty()) continue;
        throw Error(ErrorKind::config, fmt::format("suite {}: case {}: injections.{}.op: {}",
                                                   suite.name, planned.id(), i, fault));
      }
    }
  }
}

}  // namespace dettax
