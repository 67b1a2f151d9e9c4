#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/analysis/projection/projection_json.h"

namespace dettax {

// What one knob adds to a projected step.
struct ProjectedCause {
  std::string name;  // of the knob
  std::string part;  // ordering, framework, opportunity
  double ratio = 0;  // of the fast step, alone
};

// One projection as it is reported: of what `dettax project` has just simulated, or of a file that it wrote (--json).
struct ProjectedStep {
  std::string model, precision, layout, cluster, device, mode;
  int64_t gpus = 0;
  double fast_seconds = 0, deterministic_seconds = 0;  // a step
  double tokens_per_second = 0, mfu_ratio = 0;         // of the fast one
  double memory_bytes = 0, device_memory_bytes = 0;    // of one device: needed, and there
  double tax = 0, p10 = 0, p50 = 0, p90 = 0;  // overheads: medians of all factors, over draws
  std::vector<ProjectedCause> causes;         // largest first
  double interaction = 0;                     // closes the sum to `tax`

  // model.precision.layout/mode on cluster: tells one projection from another.
  std::string name() const;
};

ProjectedStep projected_step(const Hardware& machine, const ProjectedCase& projected);
// Throws Error{config} that begins with the path where it is no file of `dettax project --json`, or holds no case.
std::vector<ProjectedStep> read_projections(const std::string& path);

}  // namespace dettax
