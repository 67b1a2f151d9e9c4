#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/comm/request.h"
#include "harness/train/model_layout.h"
#include "harness/train/parameters.h"

namespace dettax {

struct StepContext;

// Weights of which every replica holds a part, gathered for as long as they are needed: those of a layer for its forward pass and again
// for its backward pass, into one of two places, so that where the overlap knob is on the next layer's come while this one computes;
// tables and the final norm once a step. Does nothing where replicas hold all weights, nor for those that no other rank holds.
class GatheredWeights {
 public:
  GatheredWeights(ParameterStore& store, const ModelLayout& layout, Device& device);

  // What has been gathered is out of date: the weights have changed.
  void forget();
  // Both collective over the replicas. The layer is the context's, and so is the direction in which layers follow.
  void need_ends(StepContext& c);
  void need_layer(StepContext& c);

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }

 private:
  // Neighbouring buckets: an end is one; a layer is one, or several where its experts are held by other ranks than the rest.
  struct Range {
    size_t first = 0, end = 0;
    bool empty() const { return first == end; }
    friend bool operator==(const Range&, const Range&) = default;
  };
  // Memory for the weights of some buckets.
  struct Place {
    float* memory = nullptr;
    Range buckets;          // whose weights it has, or is about to have
    bool expected = false;  // asked for, and not yet waited for
    std::vector<Request> arrivals;
  };
  int64_t size_of(const Range& range) const;
  Range next_layer(const StepContext& c) const;
  Place* holder_of(const Range& buckets);
  void start(StepContext& c, Place& place, const Range& buckets, bool behind);
  void wait_for(StepContext& c, Place& place);
  static void settle(Place& place);
  void show(StepContext& c, Place& place);
  template <typename Body>
  void for_each_in_shards(const Range& range, const Body& body) const {
    for (size_t b = range.first; b < range.end; ++b) {
      if (store_.in_shards(b)) body(b);
    }
  }

  ParameterStore& store_;
  std::vector<Range> layers_;  // of the whole model; empty where held elsewhere
  std::vector<Place> ends_;
  std::array<Place, 2> places_;
  size_t last_used_ = 0;
  Buffer memory_;
};

}  // namespace dettax
