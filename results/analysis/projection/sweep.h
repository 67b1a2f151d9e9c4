#pragma once

#include <cstdint>
#include <vector>

#include "results/analysis/projection/simulate.h"

namespace dettax {

// Layouts of the same job on the same number of ranks.
struct SweepRow {
  TrainingPlan plan;
  Projection projection;
  bool fits = false;  // into the device's memory
};
struct Sweep {
  std::vector<SweepRow> rows;  // fastest that fits first, what does not fit behind
  int tried = 0;               // layouts looked at
  int impossible = 0;          // of them cannot be cut like that
};
// All combinations of tensor, pipeline, virtual, context and expert parallelism, micro-batch and recomputation for `plan`'s model, ranks
// and global batch; at most `most` of them are simulated.
Sweep sweep_layouts(const Hardware& machine, const TrainingPlan& plan, int most);

// The same layout on more or fewer ranks: data-parallel replicas and the global batch grow together.
TrainingPlan on_ranks(const TrainingPlan& plan, int64_t ranks);

}  // namespace dettax
