#include "harness/train/gradient_reduction.h"

#include <string>
#include <utility>

#include "harness/train/step_context.h"
#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

void add_apart_head(StepContext& c) {
  c.begin(Op::tied_head);
  c.ops.add(c.gradient(c.layout.embedding), c.parameters.head_gradient());
}

// Norms saw only the rows of their rank. All of them in one piece, since each is small.
void sum_norm_gradients(StepContext& c) {
  int64_t count = 0;
  const auto for_each = [&](const auto& body) {
    count = 0;
    for (size_t p = 0; p < c.layout.parameters.size(); ++p) {
      if (!c.layout.parameters[p].of_norm) continue;
      const Tensor gradient = c.reduced_gradient(static_cast<int>(p));
      if (gradient.count() == 0) continue;
      body(make_tensor(c.buffers.norm_gradients.f32() + count, DType::f32, {gradient.count()}),
           gradient);
      count += gradient.count();
    }
  };
  c.begin(Op::sequence_gradients);
  for_each([&](const Tensor& place, const Tensor& gradient) { c.ops.copy(place, gradient); });
  const Tensor packed = make_tensor(c.buffers.norm_gradients.f32(), DType::f32, {count});
  c.probe.output("norms before", packed, 0);
  c.device.synchronize();
  c.mesh.tensor().all_reduce(packed.f32(), packed.count(), c.knobs.collectives);
  for_each([&](const Tensor& place, const Tensor& gradient) { c.ops.copy(gradient, place); });
}

// First and last stage of a pipeline hold a tied table each, with the sum over replicas of the gradient of one of its uses. Both then
// make the same update. A bucket of its own gives each replica the same part of it on both stages.
void add_tied_tables(StepContext& c) {
  if (!c.model.tied_head || c.mesh.ends().size() == 1) return;
  const Tensor gradient = c.reduced_gradient(c.layout.embedding);
  c.begin(Op::tied_table);
  c.probe.output("embedding.weight.grad before", gradient, 0);
  c.device.synchronize();
  c.mesh.ends().all_reduce(gradient.f32(), gradient.count(), c.knobs.collectives);
}

}  // namespace

GradientReduction::GradientReduction(const StoragePlan& plan, bool scattered, bool complete_at_end)
    : buckets_(plan.buckets), scattered_(scattered), complete_at_end_(complete_at_end) {
  under_way_.reserve(buckets_.size());
}

// What is shown has the same names on every layout.
void GradientReduction::show_sums(StepContext& c) const {
  if (!c.probe.observed()) return;
  c.begin(Op::gradients);
  for (size_t p = 0; p < c.layout.parameters.size(); ++p) {
    const Tensor gradient = c.reduced_gradient(static_cast<int>(p));
    if (gradient.count() > 0) c.probe.output(c.layout.parameters[p].name + ".grad", gradient, 0);
  }
}

void GradientReduction::show_parts(StepContext& c, size_t bucket) const {
  if (!c.probe.observed()) return;
  c.begin(Op::gradients);
  for (size_t p = 0; p < c.layout.parameters.size(); ++p) {
    if (static_cast<size_t>(c.parameters.plan().bucket_of[p]) != bucket) continue;
    c.probe.output(c.layout.parameters[p].name + ".grad before", c.gradient(static_cast<int>(p)),
                   0);
  }
}

void GradientReduction::send(StepContext& c, size_t bucket) {
  const Bucket range = buckets_[bucket];
  const Tensor all = c.parameters.gradient_range(range.begin, range.end);
  show_parts(c, bucket);
  c.begin(Op::bucket);
  c.probe.fact("bounds before", range.begin, range.end);
  c.device.synchronize();
  Communicator& replicas = c.mesh.replicas(range.of_experts);
  const Order order = c.knobs.collectives;
  if (!scattered_) {
    if (c.knobs.overlap) {
      under_way_.push_back(replicas.start_all_reduce(all.f32(), all.count(), order));
    } else {
      replicas.all_reduce(all.f32(), all.count(), order);
    }
    return;
  }
  const Bucket part = c.parameters.owned_range(bucket);
  const Tensor own = c.parameters.gradient_range(part.begin, part.end);
  if (c.knobs.overlap) {
    under_way_.push_back(replicas.start_reduce_scatter(all.f32(), own.f32(), own.count(), order));
  } else {
    replicas.reduce_scatter(all.f32(), own.f32(), own.count(), order);
  }
}

void GradientReduction::complete_from(StepContext& c, int64_t offset) {
  if (!c.last_micro_batch || complete_at_end_ || !c.knobs.overlap) return;
  if (c.mesh.replicas().size() == 1) return;
  const auto sends = [&] { return next_ < buckets_.size() && buckets_[next_].begin >= offset; };
  if (!sends()) return;
  const Phase phase = std::exchange(c.phase, Phase::reduce);
  const int64_t layer = std::exchange(c.layer, kNoLayer);
  c.probe.leave_micro_batch();
  for (; sends(); ++next_) send(c, next_);
  c.probe.enter_micro_batch(c.micro_batch);
  c.phase = phase;
  c.layer = layer;
}

void GradientReduction::finish(StepContext& c) {
  if (c.mesh.replicas().size() > 1) {
    for (; next_ < buckets_.size(); ++next_) send(c, next_);
    c.begin(Op::bucket);
    for (Request& request : under_way_) request.wait();
    under_way_.clear();
    next_ = 0;
  }
  if (c.parameters.apart()) add_apart_head(c);
  add_tied_tables(c);
  if (sequence_parallel(c)) sum_norm_gradients(c);
  show_sums(c);
}

}  // namespace dettax
