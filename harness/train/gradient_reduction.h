#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/request.h"
#include "harness/train/storage_plan.h"

namespace dettax {

struct StepContext;

// Adds gradient copy 0 over the replicas, bucket by bucket. Each rank gets every sum, or with the optimizer sharded those of what it
// owns. Buckets go from the back of the storage to its beginning, in every mode and on every rank, which is the order in which the
// backward pass completes them: where the overlap knob is on a bucket is sent, and the pass goes on, as soon as its last gradient
// is there. What order of arrival changes is the order inside each sum.
class GradientReduction {
 public:
  // `scattered`: sums go to who owns them. `complete_at_end`: gradients are put together only behind the last micro-batch.
  GradientReduction(const StoragePlan& plan, bool scattered, bool complete_at_end);

  bool scattered() const { return scattered_; }

  // The backward pass of the last micro-batch has completed everything that lies from `offset` on.
  void complete_from(StepContext& c, int64_t offset);
  // Behind the backward pass: sends what has not been sent, waits for all, adds the two uses of a tied table if they were kept apart
  // and, under sequence parallelism, what tensor ranks have of the gradients of norms.
  void finish(StepContext& c);

 private:
  void send(StepContext& c, size_t bucket);
  void show_sums(StepContext& c) const;
  void show_parts(StepContext& c, size_t bucket) const;

  const std::vector<Bucket>& buckets_;
  const bool scattered_, complete_at_end_;
  size_t next_ = 0;  // bucket to be sent
  std::vector<Request> under_way_;
};

}  // namespace dettax
