#include "harness/train/parameters.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace dettax {
namespace {

size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

// A piece of one parameter, small enough to share the work evenly.
struct Piece {
  int parameter;
  int64_t begin, end;
};

// Elements from `begin` of those held.
void initial_part(const ParameterSpec& spec, uint64_t seed, int64_t begin,
                  std::vector<float>& values) {
  for (size_t done = 0; done < values.size();) {
    const Run run = run_at(spec, begin + static_cast<int64_t>(done));
    const auto count = std::min(run.count, static_cast<int64_t>(values.size() - done));
    initial_values(spec, seed, run.whole_index, run.whole_index + count, values.data() + done);
    done += static_cast<size_t>(count);
  }
}

// Of what this rank keeps of the weights.
std::vector<Piece> pieces_of(const ModelLayout& layout, const ParameterStore& store) {
  constexpr int64_t kPiece = 1 << 18;
  std::vector<Piece> pieces;
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const auto parameter = static_cast<int>(p);
    const Elements kept = store.weights_sharded() ? store.owned(parameter)
                                                  : Elements{0, layout.parameters[p].count()};
    const int64_t end = kept.first + kept.count;
    for (int64_t at = kept.first; at < end; at += kPiece) {
      pieces.push_back({parameter, at, std::min(end, at + kPiece)});
    }
  }
  return pieces;
}

}  // namespace

ParameterStore::ParameterStore(const ModelLayout& layout, const StorageShape& shape, Device& device)
    : layout_(layout), device_(device), shape_(shape), plan_(plan_storage(layout, shape)) {
  int64_t owned = 0;
  for (const Bucket& bucket : plan_.buckets) {
    owned_at_.push_back(owned);
    if (bucket.begin < plan_.weights)
      owned += (bucket.end - bucket.begin) / shape.shards_of(bucket).count;
  }
  weights_ = device.allocate(float_bytes(weights_sharded() ? owned : plan_.weights));
  first_moment_ = device.allocate(float_bytes(owned));
  second_moment_ = device.allocate(float_bytes(owned));
  gradients_ = device.allocate(float_bytes(plan_.gradients) * static_cast<size_t>(shape.copies));
  auto* weights = static_cast<float*>(weights_.data());
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    if (!weights_sharded()) {
      weights_of_.push_back(weights + plan_.buckets[b].begin);
    } else {
      weights_of_.push_back(in_shards(b) ? nullptr : weights + owned_at_[b]);
    }
  }
}

Tensor ParameterStore::shaped(float* data, int parameter) const {
  const ParameterSpec& spec = layout_.parameters[static_cast<size_t>(parameter)];
  return spec.matrix ? make_tensor(data, DType::f32, {spec.rows, spec.columns})
                     : make_tensor(data, DType::f32, {spec.rows});
}

Tensor ParameterStore::value(int parameter) const {
  const size_t bucket = bucket_of(parameter);
  return shaped(weights_of_[bucket] + offset(parameter) - plan_.buckets[bucket].begin, parameter);
}

Tensor ParameterStore::gradient(int parameter, int copy) const {
  auto* gradients = static_cast<float*>(gradients_.data());
  return shaped(gradients + plan_.gradients * copy + offset(parameter), parameter);
}

Tensor ParameterStore::head_gradient(int copy) const {
  if (!apart()) return gradient(layout_.head, copy);
  auto* gradients = static_cast<float*>(gradients_.data());
  return shaped(gradients + plan_.gradients * copy + plan_.head_gradient, layout_.head);
}

Tensor ParameterStore::gradient_range(int64_t begin, int64_t end, int copy) const {
  return make_tensor(static_cast<float*>(gradients_.data()) + plan_.gradients * copy + begin,
                     DType::f32, {end - begin});
}

Bucket ParameterStore::owned_range(size_t bucket) const {
  const Bucket& whole = plan_.buckets[bucket];
  const Shards& shards = shape_.shards_of(whole);
  const int64_t part = (whole.end - whole.begin) / shards.count;
  return {whole.begin + part * shards.index, whole.begin + part * (shards.index + 1),
          whole.of_experts};
}

Elements ParameterStore::owned(int parameter) const {
  const Bucket range = owned_range(bucket_of(parameter));
  const int64_t count = layout_.parameters[static_cast<size_t>(parameter)].count();
  const int64_t first = std::clamp<int64_t>(range.begin - offset(parameter), 0, count);
  const int64_t end = std::clamp<int64_t>(range.end - offset(parameter), 0, count);
  return {first, end - first};
}

Tensor ParameterStore::owned_part(const Buffer& buffer, int parameter) const {
  const size_t bucket = bucket_of(parameter);
  const Elements elements = owned(parameter);
  auto* part = static_cast<float*>(buffer.data()) + owned_at_[bucket];
  if (elements.count > 0) part += offset(parameter) + elements.first - owned_range(bucket).begin;
  return make_tensor(part, DType::f32, {elements.count});
}

Tensor ParameterStore::owned_value(int parameter) const {
  if (weights_sharded()) return owned_part(weights_, parameter);
  const Elements elements = owned(parameter);
  return make_tensor(value(parameter).f32() + elements.first, DType::f32, {elements.count});
}

Tensor ParameterStore::owned_gradient(int parameter) const {
  const Elements elements = owned(parameter);
  return make_tensor(gradient(parameter).f32() + elements.first, DType::f32, {elements.count});
}

Tensor ParameterStore::owned_weights(size_t bucket) const {
  const Bucket range = owned_range(bucket);
  auto* weights = static_cast<float*>(weights_.data());
  return make_tensor(weights + (weights_sharded() ? owned_at_[bucket] : range.begin), DType::f32,
                     {range.end - range.begin});
}

Tensor ParameterStore::weights_range(size_t bucket) const {
  const Bucket& whole = plan_.buckets[bucket];
  return make_tensor(weights_of_[bucket], DType::f32, {whole.end - whole.begin});
}

int64_t ParameterStore::bytes() const {
  return static_cast<int64_t>(weights_.bytes() + gradients_.bytes() + first_moment_.bytes() +
                              second_moment_.bytes());
}

void ParameterStore::reset(uint64_t seed, int threads) {
  for (const Buffer* buffer : {&weights_, &gradients_, &first_moment_, &second_moment_}) {
    const auto count = static_cast<int64_t>(buffer->bytes() / sizeof(float));
    device_.ops().fill_bytes(make_tensor(buffer->data(), DType::f32, {count}), 0);
  }
  device_.synchronize();
  const std::vector<Piece> pieces = pieces_of(layout_, *this);
  std::atomic<size_t> next{0};
  std::mutex device_mutex;     // a device takes calls from one thread at a time
  std::exception_ptr failure;  // of whichever thread, since a helper has nobody to throw to
  const auto set_initial = [&](const Piece& piece, std::vector<float>& values) {
    values.resize(static_cast<size_t>(piece.end - piece.begin));
    initial_part(layout_.parameters[static_cast<size_t>(piece.parameter)], seed, piece.begin,
                 values);
    const std::lock_guard lock(device_mutex);
    if (failure) return;
    try {
      fill(values, piece.parameter, piece.begin);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  const auto work = [&] {
    std::vector<float> values;
    for (size_t i = next++; i < pieces.size(); i = next++) set_initial(pieces[i], values);
  };
  {
    std::vector<std::jthread> helpers;
    for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

void ParameterStore::fill(const std::vector<float>& values, int parameter, int64_t first) {
  float* to = weights_sharded() ? owned_value(parameter).f32() - owned(parameter).first
                                : value(parameter).f32();
  device_.copy_from_host(to + first, values.data(), values.size() * sizeof(float));
}

}  // namespace dettax
