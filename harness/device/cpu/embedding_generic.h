#pragma once

#include "harness/device/cpu/embedding_backward.h"
#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"

namespace dettax {

// table[V,C] += rows of dy[M,C] by token, as a framework's index_put(accumulate) does it when it must
// be deterministic: a stable sort of (index, position) pairs that knows nothing of vocabularies, dy
// gathered into sorted order in a temporary of its own size, and one thread that adds the rows one by
// one, or those of each id as the kernel sums them.
void add_rows_as_index_put(Team& team, Scratch& scratch, const EmbeddingGradient& gradient);
void add_rows_as_index_put(Team& team, Scratch& scratch, const EmbeddingGradient& gradient,
                           RowKernel kernel);

}  // namespace dettax
