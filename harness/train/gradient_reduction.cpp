#include "harness/train/gradient_reduction.h"

#include <string>
#include <string_view>

#include "harness/train/tensor_parallel.h"

namespace dettax {
namespace {

constexpr int64_t kBucketFloats = 25'000'000 / 4;

void reduce_bucket(StepContext& c, const Bucket& bucket) {
  const Tensor gradients = c.parameters.gradient_range(bucket.begin, bucket.end);
  c.begin(Op::bucket);
  c.device.synchronize();
  c.mesh.replicas().all_reduce(gradients.f32(), gradients.count(), c.knobs.collectives);
}

void add_apart_head(StepContext& c) {
  c.begin(Op::tied_head);
  c.ops.add(c.gradient(c.layout.embedding), c.parameters.head_gradient());
}

// Norms saw only the rows of their rank. All of them in one piece, since each is small.
void sum_norm_gradients(StepContext& c) {
  const Tensor& packed = c.buffers.norm_gradients;
  const auto for_each = [&](const auto& body) {
    int64_t at = 0;
    for (size_t p = 0; p < c.layout.parameters.size(); ++p) {
      if (!c.layout.parameters[p].of_norm) continue;
      const Tensor gradient = c.gradient(static_cast<int>(p));
      body(make_tensor(packed.f32() + at, DType::f32, {gradient.count()}), gradient);
      at += gradient.count();
    }
  };
  c.begin(Op::sequence_gradients);
  for_each([&](const Tensor& place, const Tensor& gradient) { c.ops.copy(place, gradient); });
  c.probe.output("norms before", packed, 0);
  c.device.synchronize();
  c.mesh.tensor().all_reduce(packed.f32(), packed.count(), c.knobs.collectives);
  for_each([&](const Tensor& place, const Tensor& gradient) { c.ops.copy(gradient, place); });
}

// What is shown after the reduction has the same names on every layout.
void show_gradients(StepContext& c, std::string_view suffix) {
  if (!c.probe.observed()) return;
  c.begin(Op::gradients);
  for (size_t p = 0; p < c.layout.parameters.size(); ++p) {
    const Tensor gradient = c.gradient(static_cast<int>(p));
    c.probe.output(c.layout.parameters[p].name + ".grad" + std::string(suffix), gradient, 0);
  }
}

}  // namespace

std::vector<Bucket> make_buckets(const ModelLayout& layout, const ParameterStore& parameters) {
  std::vector<int64_t> starts;  // of everything that has a gradient of its own
  starts.reserve(layout.parameters.size() + 1);
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    starts.push_back(parameters.offset(static_cast<int>(p)));
  }
  if (parameters.apart()) {
    starts.push_back(parameters.head_gradient().f32() - parameters.all_gradients().f32());
  }
  std::vector<Bucket> buckets;
  int64_t end = parameters.gradient_count();
  for (size_t i = starts.size(); i-- > 0;) {
    if (end - starts[i] < kBucketFloats && i > 0) continue;
    buckets.push_back({starts[i], end});
    end = starts[i];
  }
  return buckets;
}

void reduce_gradients(StepContext& c, const std::vector<Bucket>& buckets) {
  if (c.mesh.replicas().size() > 1) {
    show_gradients(c, " before");
    for (const Bucket& bucket : buckets) reduce_bucket(c, bucket);
  }
  if (c.parameters.apart()) add_apart_head(c);
  if (sequence_parallel(c)) sum_norm_gradients(c);
  show_gradients(c, "");
}

}  // namespace dettax
