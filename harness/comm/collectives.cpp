#include "harness/comm/collectives.h"

#include <algorithm>
#include <cstring>

namespace dettax {

namespace {

// Hierarchical is a word about nodes: where they do not differ, it means nothing.
Algorithm fitting(Algorithm algorithm, const Transport& transport) {
  const bool nodes =
      algorithm != Algorithm::hierarchical || Hierarchy::exists(transport.node_of_rank());
  return nodes ? algorithm : Algorithm::direct;
}

}  // namespace

Collectives::Collectives(Transport& transport, Algorithm algorithm)
    : transport_(transport), algorithm_(fitting(algorithm, transport)) {}

Hierarchy& Collectives::hierarchy() {
  if (hierarchy_) return *hierarchy_;
  auto made = std::make_unique<Hierarchy>(transport_);
  made->set_spin(spin_);
  const std::lock_guard lock(mutex_);
  hierarchy_ = std::move(made);
  if (abandoned_) hierarchy_->abandon();
  return *hierarchy_;
}

void Collectives::abandon() {
  transport_.abandon();
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  if (hierarchy_) hierarchy_->abandon();
}

void Collectives::set_spin(bool spin) {
  spin_ = spin;
  transport_.set_spin(spin);
  if (hierarchy_) hierarchy_->set_spin(spin);
}

// What the algorithm does where it is not made for the number of ranks.
Algorithm Collectives::way(Operation operation) {
  const bool whole = operation == Operation::all_reduce;
  if (algorithm_ == Algorithm::halving && !whole && !power_of_two(transport_.size()))
    return Algorithm::ring;
  if (algorithm_ == Algorithm::hierarchical && !whole && !hierarchy().even())
    return Algorithm::direct;
  return algorithm_;
}

Algorithm Collectives::way_of_sum(Operation operation, Order order) {
  const Algorithm chosen = way(operation);
  if (order != Order::invariant) return chosen;
  if (chosen == Algorithm::halving && operation == Operation::all_reduce &&
      power_of_two(transport_.size()))
    return chosen;
  if (chosen == Algorithm::hierarchical && hierarchy().continues_tree()) return chosen;
  return Algorithm::direct;
}

void Collectives::all_reduce(float* data, int64_t count, Order order) {
  if (transport_.size() == 1) return;
  switch (way_of_sum(Operation::all_reduce, order)) {
    case Algorithm::direct:
      transport_.reduce({data, data, cut(count, transport_.size()), order, true});
      break;
    case Algorithm::ring:
      ring_all_reduce(transport_, data, count);
      break;
    case Algorithm::tree:
      tree_all_reduce(transport_, data, count, order);
      break;
    case Algorithm::halving:
      halving_all_reduce(transport_, data, count);
      break;
    case Algorithm::hierarchical:
      hierarchy().all_reduce(data, count, order);
      break;
  }
}

void Collectives::reduce_scatter(const float* in, float* out, int64_t count, Order order) {
  if (transport_.size() == 1) {
    if (in != out) std::copy_n(in, count, out);
    return;
  }
  switch (way_of_sum(Operation::reduce_scatter, order)) {
    case Algorithm::direct:
      transport_.reduce({in, out, equal_parts(count, transport_.size()), order, false});
      break;
    case Algorithm::ring:
      ring_reduce_scatter(transport_, in, out, count, scratch_);
      break;
    case Algorithm::tree:
      tree_reduce_scatter(transport_, in, out, count, order, scratch_);
      break;
    case Algorithm::halving:
      halving_reduce_scatter(transport_, in, out, count, scratch_);
      break;
    case Algorithm::hierarchical:
      hierarchy().reduce_scatter(in, out, count, order);
      break;
  }
}

void Collectives::all_gather(const void* in, void* out, int64_t bytes) {
  if (transport_.size() == 1) {
    if (in != out && bytes > 0) std::memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  switch (way(Operation::all_gather)) {
    case Algorithm::direct:
      transport_.gather(in, out, equal_parts(bytes, transport_.size()));
      break;
    case Algorithm::ring:
      ring_all_gather(transport_, in, out, bytes);
      break;
    case Algorithm::tree:
      tree_all_gather(transport_, in, out, bytes);
      break;
    case Algorithm::halving:
      doubling_all_gather(transport_, in, out, bytes);
      break;
    case Algorithm::hierarchical:
      hierarchy().all_gather(in, out, bytes);
      break;
  }
}

}  // namespace dettax
