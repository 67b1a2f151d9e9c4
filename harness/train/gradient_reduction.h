#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/step_context.h"

namespace dettax {

// Contiguous gradients that are reduced over the data-parallel group in one call.
struct Bucket {
  int64_t begin = 0, end = 0;  // in the gradient storage
};

// About 25 MB each, cut between parameters, from the end of the storage to its beginning: the backward pass completes gradients in
// that order, so that a bucket is complete when its first parameter is. Depends on the model alone, never on ranks or time.
std::vector<Bucket> make_buckets(const ModelLayout& layout, const ParameterStore& parameters);

// Sums gradient copy 0 over the replicas, bucket by bucket, then adds the two uses of a tied table if they were kept apart.
void reduce_gradients(StepContext& c, const std::vector<Bucket>& buckets);

}  // namespace dettax
