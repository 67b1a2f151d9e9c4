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
// tables and the final norm once a step. Does nothing where replicas hold all weights.
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
  static constexpr size_t kNone = SIZE_MAX;
  // Memory for the weights of one bucket.
  struct Place {
    float* memory = nullptr;
    size_t bucket = kNone;  // whose weights it has, or is about to have
    bool expected = false;  // asked for, and not yet waited for
    Request arrival;
  };
  size_t bucket_of_layer(int64_t layer) const;
  size_t next_bucket(const StepContext& c) const;
  Place* holder_of(size_t bucket);
  void start(StepContext& c, Place& place, size_t bucket, bool behind);
  void wait_for(StepContext& c, Place& place);
  void show(StepContext& c, Place& place);

  ParameterStore& store_;
  const ModelLayout& layout_;
  std::vector<Place> ends_;
  std::array<Place, 2> places_;
  size_t last_used_ = 0;
  Buffer memory_;
};

}  // namespace dettax
