#include "harness/train/gathered_weights.h"

#include <algorithm>

#include "harness/train/step_context.h"

namespace dettax {

GatheredWeights::GatheredWeights(ParameterStore& store, const ModelLayout& layout, Device& device)
    : store_(store), layout_(layout) {
  if (!store.weights_sharded()) return;
  const auto& buckets = store.plan().buckets;
  int64_t ends = 0;
  int64_t largest_layer = 0;
  const auto size = [&](size_t bucket) { return buckets[bucket].end - buckets[bucket].begin; };
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const auto bucket = static_cast<size_t>(store.plan().bucket_of[p]);
    if (layout.parameters[p].layer >= 0) {
      largest_layer = std::max(largest_layer, size(bucket));
    } else if (ends_.empty() || ends_.back().bucket != bucket) {
      ends_.emplace_back().bucket = bucket;
      ends += size(bucket);
    }
  }
  memory_ = device.allocate(static_cast<size_t>(ends + 2 * largest_layer) * sizeof(float));
  auto* at = static_cast<float*>(memory_.data());
  for (Place& place : places_) {
    place.memory = at;
    at += largest_layer;
  }
  for (Place& place : ends_) {
    place.memory = at;
    at += size(place.bucket);
  }
}

void GatheredWeights::forget() {
  for (Place& place : places_) {
    place.arrival.wait();
    place.bucket = kNone;
    place.expected = false;
  }
}

size_t GatheredWeights::bucket_of_layer(int64_t layer) const {
  const LayerParameters& parameters = layout_.layers[static_cast<size_t>(layer)];
  return static_cast<size_t>(store_.plan().bucket_of[static_cast<size_t>(parameters.norm1.gamma)]);
}

// Of the layer that comes behind the context's in the same pass, if this rank holds it. What comes behind a chunk of layers depends on
// the schedule.
size_t GatheredWeights::next_bucket(const StepContext& c) const {
  const int64_t next = c.layer + (c.phase == Phase::forward ? 1 : -1);
  const bool held = next >= 0 && next < std::ssize(layout_.layers) &&
                    layout_.layers[static_cast<size_t>(next)].norm1.gamma != kNoParameter;
  return held ? bucket_of_layer(next) : kNone;
}

GatheredWeights::Place* GatheredWeights::holder_of(size_t bucket) {
  const auto found = std::ranges::find(places_, bucket, &Place::bucket);
  return found == places_.end() ? nullptr : &*found;
}

void GatheredWeights::start(StepContext& c, Place& place, size_t bucket, bool behind) {
  place.arrival.wait();
  place.bucket = bucket;
  store_.place_weights(bucket, place.memory);
  const Tensor own = store_.owned_weights(bucket);
  c.device.synchronize();
  place.expected = true;
  if (behind) {
    place.arrival = c.mesh.replicas().start_all_gather(own.data, place.memory, own.bytes());
    return;
  }
  c.begin(Op::weight_gather);
  c.mesh.replicas().all_gather(own.data, place.memory, own.bytes());
  show(c, place);
}

void GatheredWeights::show(StepContext& c, Place& place) {
  c.probe.output("weights", store_.weights_range(place.bucket), 0);
  place.expected = false;
}

void GatheredWeights::wait_for(StepContext& c, Place& place) {
  if (!place.expected) return;
  c.begin(Op::weight_gather);
  place.arrival.wait();
  show(c, place);
}

void GatheredWeights::need_ends(StepContext& c) {
  for (Place& place : ends_) start(c, place, place.bucket, c.knobs.overlap);
  for (Place& place : ends_) wait_for(c, place);
}

void GatheredWeights::need_layer(StepContext& c) {
  if (!store_.weights_sharded()) return;
  const size_t bucket = bucket_of_layer(c.layer);
  Place* place = holder_of(bucket);
  if (place == nullptr) {
    place = &places_[1 - last_used_];
    start(c, *place, bucket, false);
  }
  wait_for(c, *place);
  last_used_ = static_cast<size_t>(place - places_.data());
  const size_t next = next_bucket(c);
  if (!c.knobs.overlap || next == kNone || holder_of(next) != nullptr) return;
  start(c, places_[1 - last_used_], next, true);
}

}  // namespace dettax
