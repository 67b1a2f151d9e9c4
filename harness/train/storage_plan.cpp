#include "harness/train/storage_plan.h"

#include <algorithm>

namespace dettax {
namespace {

constexpr int64_t kLine = 16;  // floats in a cache line
constexpr int64_t kBucketFloats = 25'000'000 / 4;

int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

// For each parameter whether a bucket begins with it.
std::vector<bool> bucket_starts(const ModelLayout& layout, const StorageShape& shape) {
  const auto& parameters = layout.parameters;
  std::vector<bool> starts(parameters.size(), false);
  int64_t size = 0;
  for (size_t p = parameters.size(); p-- > 0;) {
    size += rounded_up(parameters[p].count(), kLine);
    const bool cut = shape.shard_weights ? p > 0 && parameters[p].layer != parameters[p - 1].layer
                                         : size >= kBucketFloats;
    const bool experts_end =
        shape.experts_apart && p > 0 && parameters[p].of_experts != parameters[p - 1].of_experts;
    if (!cut && !experts_end && p > 0 && !(shape.table_alone && p == 1 && layout.embedding == 0))
      continue;
    starts[p] = true;
    size = 0;
  }
  return starts;
}

}  // namespace

StoragePlan plan_storage(const ModelLayout& layout, const StorageShape& shape) {
  StoragePlan plan;
  int64_t at = 0;
  const auto close = [&] {
    if (plan.buckets.empty()) return;
    const int64_t unit = kLine * shape.shards_of(plan.buckets.back()).count;
    at = plan.buckets.back().begin + rounded_up(at - plan.buckets.back().begin, unit);
    plan.buckets.back().end = at;
  };
  const std::vector<bool> starts = bucket_starts(layout, shape);
  for (size_t p = 0; p < starts.size(); ++p) {
    if (starts[p]) {
      close();
      plan.buckets.push_back({at, at, layout.parameters[p].of_experts});
    }
    plan.bucket_of.push_back(static_cast<int>(plan.buckets.size()) - 1);
    plan.offsets.push_back(at);
    at += rounded_up(layout.parameters[p].count(), kLine);
  }
  close();
  plan.weights = plan.gradients = plan.head_gradient = at;
  if (shape.apart) {
    plan.buckets.push_back({at, at});
    at += rounded_up(layout.parameters[static_cast<size_t>(layout.head)].count(), kLine);
    close();
    plan.gradients = at;
  }
  std::ranges::reverse(plan.buckets);
  for (int& bucket : plan.bucket_of) bucket = static_cast<int>(plan.buckets.size()) - 1 - bucket;
  return plan;
}

}  // namespace dettax
