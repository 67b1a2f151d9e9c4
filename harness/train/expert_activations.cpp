#include "harness/train/expert_activations.h"

namespace dettax {
namespace {

Tensor take_ints(Arena& arena, int64_t rows, int64_t columns) {
  return arena.take(DType::i32, {rows, columns});
}

}  // namespace

ExpertActivations take_expert_layer(Arena& arena, const ExpertShapes& s) {
  const ExpertSizes& e = s.sizes;
  ExpertActivations a;
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
  a.input = arena.floats({e.received, s.width});
  a.up = arena.floats({e.received, e.up_width});
  a.activated = arena.floats({e.received, e.width});
  a.output = arena.floats({e.sent, s.width});
  return a;
}

ExpertScratch take_expert_scratch(Arena& arena, const ExpertShapes& s) {
  const ExpertSizes& e = s.sizes;
  ExpertScratch a;
  a.logits = arena.floats({s.rows, e.experts});
  a.d_weights = arena.floats({s.rows, e.choices});
  a.balance = arena.floats({s.rows});
  a.rows = arena.floats({e.sent, s.width});
  a.expert_rows = arena.floats({e.received, s.width});
  if (s.ranks > 1) a.exchanged = arena.floats({e.received, s.width});
  a.d_activated = arena.floats({e.received, e.width});
  a.d_up = arena.floats({e.received, e.up_width});
  return a;
}

}  // namespace dettax
