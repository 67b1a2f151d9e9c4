#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/device/device.h"
#include "harness/train/model_layout.h"
#include "harness/train/storage_plan.h"

namespace dettax {

// Some neighbours of the elements of a parameter that a rank holds.
struct Elements {
  int64_t first = 0, count = 0;
};

// Weights, gradients and moments, each in one piece of memory as the plan says. With shards this rank keeps the moments of what it owns
// alone, one bucket's behind the other's; and of the weights too, if they are sharded: then the weights of a bucket are where
// place_weights() says they have been gathered.
class ParameterStore {
 public:
  ParameterStore(const ModelLayout& layout, const StorageShape& shape, Device& device);

  const StoragePlan& plan() const { return plan_; }
  size_t size() const { return plan_.offsets.size(); }
  Tensor value(int parameter) const;
  Tensor gradient(int parameter, int copy = 0) const;
  Tensor head_gradient(int copy = 0) const;
  // Part of all gradients of a copy, gaps included.
  Tensor gradient_range(int64_t begin, int64_t end, int copy = 0) const;
  int64_t gradient_count() const { return plan_.gradients; }
  int64_t offset(int parameter) const { return plan_.offsets[static_cast<size_t>(parameter)]; }
  bool apart() const { return shape_.apart; }
  int64_t bytes() const;

  // What this rank updates: everything unless there are shards. The views are of these elements alone.
  bool sharded() const { return shape_.shards.count > 1; }
  bool weights_sharded() const { return shape_.shard_weights && sharded(); }
  Elements owned(int parameter) const;
  Tensor owned_value(int parameter) const;
  Tensor owned_gradient(int parameter) const;
  Tensor first_moment(int parameter) const { return owned_part(first_moment_, parameter); }
  Tensor second_moment(int parameter) const { return owned_part(second_moment_, parameter); }
  // The same for whole buckets: this rank's part of the weights and, where they are not sharded, all.
  Bucket owned_range(size_t bucket) const;
  Tensor owned_weights(size_t bucket) const;
  Tensor weights_range(size_t bucket) const;
  void place_weights(size_t bucket, float* weights) { weights_of_[bucket] = weights; }
  // Where every rank has its experts for itself they are whole all the time.
  bool in_shards(size_t bucket) const { return shape_.shards_of(plan_.buckets[bucket]).count > 1; }

  // Initial weights; everything else zero. `threads` may share the work: the numbers depend on (seed, parameter, index) alone.
  void reset(uint64_t seed, int threads);

 private:
  Tensor shaped(float* data, int parameter) const;
  Tensor owned_part(const Buffer& buffer, int parameter) const;
  size_t bucket_of(int parameter) const {
    return static_cast<size_t>(plan_.bucket_of[static_cast<size_t>(parameter)]);
  }
  void fill(const std::vector<float>& values, int parameter, int64_t first);

  const ModelLayout& layout_;
  Device& device_;
  const StorageShape shape_;
  const StoragePlan plan_;
  std::vector<int64_t> owned_at_;   // where a bucket's owned part begins among all of them
  std::vector<float*> weights_of_;  // where a bucket's weights are
  Buffer weights_, gradients_, first_moment_, second_moment_;
};

// Elements [begin, end) of a whole parameter as they start.
void initial_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end,
                    float* values);

}  // namespace dettax
