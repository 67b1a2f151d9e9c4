#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/device/device.h"
#include "harness/train/model_layout.h"

namespace dettax {

// How many gradients of the whole model are alive, and whether the two uses of a tied table keep theirs apart until the end.
struct GradientShape {
  int copies = 1;
  bool apart = false;
};

// Weights, gradients and moments, each in one piece of memory in the order of the layout; every tensor begins at a cache line, and
// the gaps are zero. With `apart` the head's gradient lies behind all others.
class ParameterStore {
 public:
  ParameterStore(const ModelLayout& layout, const GradientShape& gradients, Device& device);

  size_t size() const { return offsets_.size(); }
  Tensor value(int parameter) const { return view(weights_, parameter); }
  Tensor gradient(int parameter, int copy = 0) const;
  Tensor head_gradient(int copy = 0) const;
  Tensor first_moment(int parameter) const { return view(first_moment_, parameter); }
  Tensor second_moment(int parameter) const { return view(second_moment_, parameter); }
  // All gradients of a copy, gaps included, as one vector; and one part of it.
  Tensor all_gradients(int copy = 0) const { return gradient_range(0, gradient_count_, copy); }
  Tensor gradient_range(int64_t begin, int64_t end, int copy = 0) const;
  int64_t gradient_count() const { return gradient_count_; }
  int64_t offset(int parameter) const { return offsets_[static_cast<size_t>(parameter)]; }
  bool apart() const { return apart_; }
  int64_t bytes() const;

  // Initial weights; everything else zero. `threads` may share the work: the numbers depend on (seed, parameter, index) alone.
  void reset(uint64_t seed, int threads);

 private:
  Tensor view(const Buffer& buffer, int parameter, int64_t extra = 0) const;

  const ModelLayout& layout_;
  Device& device_;
  std::vector<int64_t> offsets_;
  int64_t weight_count_ = 0;
  int64_t gradient_count_ = 0;
  const bool apart_;
  Buffer weights_, gradients_, first_moment_, second_moment_;
};

// Elements [begin, end) of a whole parameter as they start.
void initial_values(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t end,
                    float* values);

}  // namespace dettax
