#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/cpu/team.h"
#include "harness/device/expert_calls.h"

namespace dettax {

// The rows of one token among those of the experts.
struct ChosenRows {
  const float* rows;
  const int32_t* slots;  // of the token, -1: dropped
  const float* weights;  // or null: 1
  int64_t choices;
  size_t width;
};

// Passes over rows, once per instruction set.
struct RowKernels {
  // y = chain over choices of weight * row, from zero, then + residual unless it is null.
  void (*combine)(float* y, const float* residual, const ChosenRows& chosen);
  // to = base + weight * from; base may be `to`.
  void (*add_weighted)(float* to, const float* base, const float* from, float weight, size_t width);
  // to = weight * from.
  void (*scaled)(float* to, const float* from, float weight, size_t width);
  // drow = weight * dy; returns dy . row.
  float (*backward)(float* drow, const float* dy, const float* row, float weight, size_t width);
};
RowKernels row_kernels();

// What the forms of unpermute_rows need to know.
struct Unpermutation {
  float* y;
  const float* rows;
  const float* weights;   // or null
  const float* residual;  // or null
  const int32_t* slots;
  const int32_t* sources;
  int64_t tokens, choices, width;

  float weight(int64_t source) const { return weights == nullptr ? 1.0f : weights[source]; }
  ChosenRows chosen(int64_t token) const {
    return {rows, slots + token * choices, weights == nullptr ? nullptr : weights + token * choices,
            choices, static_cast<size_t>(width)};
  }
};
void unpermute_on_arrival(Team& team, const Unpermutation& u, bool dynamic);
void unpermute_in_order(Team& team, const Unpermutation& u);

// The last step of a plan, from the choices that were kept (their slots are not negative): slots and
// sources.
struct Placement {
  int32_t* slots;  // in: the number among a sample's choices of the expert, -1: dropped
  int32_t* sources;
  const int32_t* segments;
  const int32_t* experts;
  int64_t samples, tokens_per_sample, choices, expert_count;

  int32_t segment(int64_t expert, int64_t sample) const {
    return segments[expert * (samples + 1) + sample];
  }
};
void place_on_arrival(Team& team, const Placement& p, bool dynamic);
void place_in_order(Team& team, const Placement& p);

}  // namespace dettax
