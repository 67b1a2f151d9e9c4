#include "harness/train/parameters.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace dettax {
namespace {

constexpr int64_t kLine = 16;  // floats in a cache line

int64_t aligned(int64_t count) { return (count + kLine - 1) / kLine * kLine; }

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

std::vector<Piece> pieces_of(const ModelLayout& layout) {
  constexpr int64_t kPiece = 1 << 18;
  std::vector<Piece> pieces;
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const int64_t count = layout.parameters[p].count();
    for (int64_t at = 0; at < count; at += kPiece) {
      pieces.push_back({static_cast<int>(p), at, std::min(count, at + kPiece)});
    }
  }
  return pieces;
}

}  // namespace

ParameterStore::ParameterStore(const ModelLayout& layout, const GradientShape& gradients,
                               Device& device)
    : layout_(layout), device_(device), apart_(gradients.apart) {
  for (const ParameterSpec& spec : layout.parameters) {
    offsets_.push_back(weight_count_);
    weight_count_ += aligned(spec.count());
  }
  gradient_count_ = weight_count_;
  if (apart_)
    gradient_count_ += aligned(layout.parameters[static_cast<size_t>(layout.head)].count());
  weights_ = device.allocate(float_bytes(weight_count_));
  first_moment_ = device.allocate(float_bytes(weight_count_));
  second_moment_ = device.allocate(float_bytes(weight_count_));
  gradients_ =
      device.allocate(float_bytes(gradient_count_) * static_cast<size_t>(gradients.copies));
}

Tensor ParameterStore::view(const Buffer& buffer, int parameter, int64_t extra) const {
  const ParameterSpec& spec = layout_.parameters[static_cast<size_t>(parameter)];
  float* data = static_cast<float*>(buffer.data()) + offset(parameter) + extra;
  return spec.matrix ? make_tensor(data, DType::f32, {spec.rows, spec.columns})
                     : make_tensor(data, DType::f32, {spec.rows});
}

Tensor ParameterStore::gradient(int parameter, int copy) const {
  return view(gradients_, parameter, gradient_count_ * copy);
}

Tensor ParameterStore::head_gradient(int copy) const {
  if (!apart_) return gradient(layout_.head, copy);
  return view(gradients_, layout_.head,
              gradient_count_ * copy + weight_count_ - offset(layout_.head));
}

Tensor ParameterStore::gradient_range(int64_t begin, int64_t end, int copy) const {
  return make_tensor(static_cast<float*>(gradients_.data()) + gradient_count_ * copy + begin,
                     DType::f32, {end - begin});
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
  const std::vector<Piece> pieces = pieces_of(layout_);
  std::atomic<size_t> next{0};
  std::mutex device_mutex;  // a device takes calls from one thread at a time
  const auto work = [&] {
    std::vector<float> values;
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const Piece& piece = pieces[i];
      values.resize(static_cast<size_t>(piece.end - piece.begin));
      initial_part(layout_.parameters[static_cast<size_t>(piece.parameter)], seed, piece.begin,
                   values);
      const std::lock_guard lock(device_mutex);
      device_.copy_from_host(value(piece.parameter).f32() + piece.begin, values.data(),
                             values.size() * sizeof(float));
    }
  };
  std::vector<std::jthread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
}

}  // namespace dettax
