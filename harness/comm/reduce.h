#pragma once

#include <cstdint>
#include <span>

namespace dettax {

// Sums over ranks that live in one address space: one pass over memory whatever the number of
// ranks. The first `count` elements of all inputs are summed and written to all outputs; a tile is
// read from every input before it is written, so that outputs may be inputs.

// ((in0 + in1) + in2) + ...
void sum_in_sequence(std::span<const float* const> inputs, std::span<float* const> outputs,
                     int64_t count);

// Binary tree aligned at input 0: (in0 + in1) + (in2 + in3).
void sum_as_tree(std::span<const float* const> inputs, std::span<float* const> outputs,
                 int64_t count);

}  // namespace dettax
