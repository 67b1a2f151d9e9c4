#pragma once

#include <cstdint>

#include "harness/device/cpu/embedding_sort.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"

namespace dettax {

// table[V,C] += rows of dy[M,C] by token, as a framework's index_put(accumulate) does it when it must
// be deterministic: a stable sort of (index, position) pairs that knows nothing of vocabularies, dy
// gathered into sorted order in a temporary of its own size, and one thread that adds the rows.
void add_rows_as_index_put(Team& team, Scratch& scratch, float* table, const float* dy,
                           const int32_t* tokens, int64_t rows, int64_t width, const HeldIds& ids);

}  // namespace dettax
