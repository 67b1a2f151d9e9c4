#include "harness/train/expert_activations.h"

namespace dettax {
namespace {

Tensor take_ints(Arena& arena, int64_t rows, int64_t columns) {
  return arena.take(DType::i32, {rows, columns});
}

void take_cheap(Arena& arena, const ExpertShapes& s, ExpertActivations& a) {
  a.activated = arena.floats({s.sizes.received, s.sizes.width});
}

void take_rows(Arena& arena, const ExpertShapes& s, ExpertActivations& a) {
  a.input = arena.floats({s.sizes.received, s.width});
  a.up = arena.floats({s.sizes.received, s.sizes.up_width});
  a.output = arena.floats({s.sizes.sent, s.width});
}

void take_choices(Arena& arena, const ExpertShapes& s, ExpertActivations& a) {
  const ExpertSizes& e = s.sizes;
  a.probabilities = arena.floats({s.rows, e.experts});
  a.experts = take_ints(arena, s.rows, e.choices);
  a.weights = arena.floats({s.rows, e.choices});
  a.plan.slots = take_ints(arena, s.rows, e.choices);
  a.plan.sources = arena.take(DType::i32, {e.sent});
  a.plan.segments = take_ints(arena, e.experts, s.samples + 1);
  a.plan.counts = take_ints(arena, s.samples, e.experts);
  a.segments = a.plan.segments;
  if (s.ranks > 1) {
    a.segments = take_ints(arena, e.held, s.ranks * s.samples + 1);
    a.arrivals = arena.take(DType::i32, {e.received});
    a.departures = arena.take(DType::i32, {e.received});
  }
}

}  // namespace

ExpertActivations take_expert_layer(Arena& arena, const ExpertShapes& s, Recompute recompute,
                                    const ExpertActivations& recomputed) {
  ExpertActivations a = recomputed;
  take_choices(arena, s, a);
  if (recompute == Recompute::none) take_cheap(arena, s, a);
  if (recompute != Recompute::full) take_rows(arena, s, a);
  return a;
}

ExpertActivations take_recomputed_experts(Arena& arena, const ExpertShapes& s,
                                          Recompute recompute) {
  ExpertActivations a;
  if (recompute != Recompute::none) take_cheap(arena, s, a);
  if (recompute == Recompute::full) take_rows(arena, s, a);
  return a;
}

ExpertScratch take_expert_scratch(Arena& arena, const ExpertShapes& s) {
  const ExpertSizes& e = s.sizes;
  ExpertScratch a;
  a.logits = arena.floats({s.rows, e.experts});
  a.d_weights = arena.floats({s.rows, e.choices});
  a.rows = arena.floats({e.sent, s.width});
  a.expert_rows = arena.floats({e.received, s.width});
  if (s.ranks > 1) a.exchanged = arena.floats({e.received, s.width});
  a.d_activated = arena.floats({e.received, e.width});
  a.d_up = arena.floats({e.received, e.up_width});
  if (s.summed_rows > 0) a.sums = arena.floats({s.summed_rows, s.width});
  if (s.sequences_cut) a.before = take_ints(arena, 2 * s.samples, e.experts);
  return a;
}

}  // namespace dettax
