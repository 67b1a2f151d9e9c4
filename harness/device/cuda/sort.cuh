#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/workspace.h"

namespace dettax {

// Positions 0, 1, ... sorted by key, equal keys in order of position: a radix sort by 8 bits at a time, each stable, so that the result
// does not depend on any schedule.
struct SortedPositions {
  const int32_t* keys;
  const int32_t* positions;
};

// Where it works.
struct SortMemory {
  size_t keys[2], positions[2], counts;
};
SortMemory add_sort(WorkspaceLayout& layout, int64_t count);

// keys[0 .. count) of `memory`, each in [0, below), are there already and become those of the result or are overwritten.
SortedPositions sort_positions(const KernelPlace& place, const WorkspaceLayout& layout,
                               const SortMemory& memory, std::byte* bytes, int64_t count,
                               int64_t below);

// values[0 .. count) become the sums of those before each; one block.
void exclusive_scan(const KernelPlace& place, int32_t* values, int64_t count);

}  // namespace dettax
