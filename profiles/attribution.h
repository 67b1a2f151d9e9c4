#pragma once

#include <optional>
#include <vector>

#include "profiles/trace.h"
#include "results/attribution.h"

namespace dettax {

struct AttributionOptions {
  bool by_ordinal = false;  // each occurrence of a path a row of its own
  double confidence = 0.95;
  double unmapped_ratio_max =
      0.02;  // work without a key, of the step time; above it nothing is attributed
  // Mean step times of both arms without a profiler, if known.
  struct Unprofiled {
    double fast_seconds = 0, deterministic_seconds = 0;
  };
  std::optional<Unprofiled> unprofiled;
};

// Where the difference of two arms' step times comes from; one trace a rank in each arm, of the same ranks.
// Every step of every rank is partitioned (partition.h), keys are matched by path and ordinal, and the mean over the steps and ranks of
// one arm is set against that of the other: it is linear, so parts add up.
// Throws Error{usage} if the arms' ranks differ, Error{infrastructure} if a trace is unusable (summary.h), no step is complete on every
// rank, or too much is unmapped, and Error{internal} if parts do not add up to the nanosecond.
Attribution attribute(const std::vector<Trace>& fast, const std::vector<Trace>& deterministic,
                      const AttributionOptions& options = {});

}  // namespace dettax
