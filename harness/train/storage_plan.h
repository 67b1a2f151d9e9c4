#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/model_layout.h"

namespace dettax {

// Neighbours in the storage that go over the wire in one piece.
struct Bucket {
  int64_t begin = 0, end = 0;  // floats; with shards, a multiple of them apart
  bool of_experts = false;     // added, and sharded, over the ranks that hold the same experts
};

// A bucket is cut into as many parts, of which this rank owns one.
struct Shards {
  int count = 1, index = 0;
};

// What is asked of the storage of a rank's parameters.
struct StorageShape {
  int copies = 1;      // gradients of the whole model alive at once
  bool apart = false;  // the two uses of a tied table keep their gradients apart until the end
  bool table_alone = false;  // the token table has a bucket of its own, so that its shards are the
                             // same on every stage of a pipeline that holds it
  Shards shards = {};
  bool experts_apart = false;  // in buckets of their own, since other ranks hold the same
  Shards expert_shards = {};   // of those
  bool shard_weights =
      false;  // of the weights it holds no more than its shards; no bucket spans two layers then

  const Shards& shards_of(const Bucket& bucket) const {
    return bucket.of_experts ? expert_shards : shards;
  }
};

// Where parameters lie: in the order of the layout, each from a cache line on, gaps zero. Weights, gradients and moments lie alike; the
// gradient of a head that is kept apart lies behind all others, in a bucket of its own.
struct StoragePlan {
  std::vector<int64_t> offsets;  // of each parameter
  std::vector<int> bucket_of;    // each parameter's
  // From the end of the storage to its beginning: the backward pass completes gradients in that order, so that a bucket is complete
  // when its first parameter is. About 25 MB each, or a layer, cut between parameters; where, depends on the model alone, never on
  // ranks or time.
  std::vector<Bucket> buckets;
  int64_t head_gradient = 0;  // where the one kept apart begins
  int64_t weights = 0, gradients = 0;
};
StoragePlan plan_storage(const ModelLayout& layout, const StorageShape& shape);

}  // namespace dettax
