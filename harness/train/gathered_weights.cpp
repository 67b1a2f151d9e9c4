#include "harness/train/gathered_weights.h"

#include <algorithm>

#include "harness/train/step_context.h"

namespace dettax {

GatheredWeights::GatheredWeights(ParameterStore& store, const ModelLayout& layout, Device& device)
    : store_(store), layers_(layout.layers.size()) {
  if (!store.weights_sharded()) return;
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const auto bucket = static_cast<size_t>(store.plan().bucket_of[p]);
    const int64_t layer = layout.parameters[p].layer;
    if (layer < 0) {
      if (ends_.empty() || ends_.back().buckets.first != bucket)
        ends_.emplace_back().buckets = {bucket, bucket + 1};
      continue;
    }
    // Buckets stand from the last to the first.
    Range& range = layers_[static_cast<size_t>(layer)];
    range = {bucket, range.empty() ? bucket + 1 : range.end};
  }
  int64_t ends = 0;
  int64_t largest_layer = 0;
  for (const Place& place : ends_) ends += size_of(place.buckets);
  for (const Range& layer : layers_) largest_layer = std::max(largest_layer, size_of(layer));
  memory_ = device.allocate(static_cast<size_t>(ends + 2 * largest_layer) * sizeof(float));
  auto* at = static_cast<float*>(memory_.data());
  for (Place& place : places_) {
    place.memory = at;
    place.arrivals.reserve(4);
    at += largest_layer;
  }
  for (Place& place : ends_) {
    place.memory = at;
    at += size_of(place.buckets);
  }
}

// Of what is gathered.
int64_t GatheredWeights::size_of(const Range& range) const {
  int64_t size = 0;
  for_each_in_shards(range, [&](size_t b) {
    const Bucket& bucket = store_.plan().buckets[b];
    size += bucket.end - bucket.begin;
  });
  return size;
}

void GatheredWeights::forget() {
  for (Place& place : places_) {
    settle(place);
    place.buckets = {};
    place.expected = false;
  }
}

// The layer that comes behind the context's in the same pass, if this rank holds it. What comes behind a chunk of layers depends on
// the schedule.
GatheredWeights::Range GatheredWeights::next_layer(const StepContext& c) const {
  const int64_t next = c.layer + (c.phase == Phase::forward ? 1 : -1);
  const bool exists = next >= 0 && next < std::ssize(layers_);
  return exists ? layers_[static_cast<size_t>(next)] : Range{};
}

GatheredWeights::Place* GatheredWeights::holder_of(const Range& buckets) {
  const auto found = std::ranges::find(places_, buckets, &Place::buckets);
  return found == places_.end() ? nullptr : &*found;
}

void GatheredWeights::settle(Place& place) {
  for (Request& arrival : place.arrivals) arrival.wait();
  place.arrivals.clear();
}

void GatheredWeights::start(StepContext& c, Place& place, const Range& buckets, bool behind) {
  settle(place);
  place.buckets = buckets;
  place.expected = true;
  c.device.synchronize();
  if (!behind) c.begin(Op::weight_gather);
  float* to = place.memory;
  for_each_in_shards(buckets, [&](size_t b) {
    store_.place_weights(b, to);
    const Tensor own = store_.owned_weights(b);
    const Bucket& bucket = store_.plan().buckets[b];
    Communicator& group = c.mesh.replicas(bucket.of_experts);
    if (behind) {
      place.arrivals.push_back(group.start_all_gather(own.data, to, own.bytes()));
    } else {
      group.all_gather(own.data, to, own.bytes());
    }
    to += bucket.end - bucket.begin;
  });
  if (!behind) show(c, place);
}

void GatheredWeights::show(StepContext& c, Place& place) {
  for_each_in_shards(place.buckets,
                     [&](size_t b) { c.probe.output("weights", store_.weights_range(b), 0); });
  place.expected = false;
}

void GatheredWeights::wait_for(StepContext& c, Place& place) {
  if (!place.expected) return;
  c.begin(Op::weight_gather);
  settle(place);
  show(c, place);
}

void GatheredWeights::need_ends(StepContext& c) {
  for (Place& place : ends_) start(c, place, place.buckets, c.knobs.overlap);
  for (Place& place : ends_) wait_for(c, place);
}

void GatheredWeights::need_layer(StepContext& c) {
  if (!store_.weights_sharded()) return;
  const Range& layer = layers_[static_cast<size_t>(c.layer)];
  Place* place = holder_of(layer);
  if (place == nullptr) {
    place = &places_[1 - last_used_];
    start(c, *place, layer, false);
  }
  wait_for(c, *place);
  last_used_ = static_cast<size_t>(place - places_.data());
  const Range next = next_layer(c);
  if (!c.knobs.overlap || next.empty() || holder_of(next) != nullptr) return;
  start(c, places_[1 - last_used_], next, true);
}

}  // namespace dettax
