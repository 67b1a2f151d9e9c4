#include "harness/device/cuda/runtime/weight_gradient.h"

#include <bit>
#include <vector>

namespace dettax {

void MatrixProducts::add_rows(const WeightGradient& gradient, ProductRows rows, const Tensor& dw,
                              bool accumulate) {
  if (rows.count > 0) return run(gradient.product(rows, dw, accumulate));
  if (!accumulate) kernels_.fill_bytes(dw, 0);
}

// A stack of partial sums: that of a sample is pushed, and the top two become one as often as the tree over samples, aligned at sample
// 0, says. A sample without rows has none, which is no addend. Nothing is added within a product: what a library does to its sum
// before, is its own business.
void MatrixProducts::add_samples(const WeightGradient& gradient,
                                 std::span<const ProductRows> samples, bool accumulate) {
  const Tensor& dw = gradient.dw;
  const int64_t count = dw.count();
  // The lowest place may be the result itself, if that is f32 and not to be added to; one more is needed to add to another type.
  const bool in_place = !accumulate && dw.type == DType::f32;
  const int64_t places =
      static_cast<int64_t>(std::bit_width(samples.size())) + (dw.type == DType::f32 ? 0 : 1);
  float* memory = working_floats(count * (in_place ? places - 1 : places));
  const auto place = [&](size_t i) {
    if (in_place && i == 0) return dw;
    float* at = memory + (static_cast<int64_t>(i) - (in_place ? 1 : 0)) * count;
    return make_tensor(at, DType::f32, {dw.rows(), dw.columns()});
  };
  std::vector<bool> present;
  const auto merge = [&] {
    const bool right = present.back();
    present.pop_back();
    const size_t left = present.size() - 1;
    if (right && present[left]) kernels_.add(place(left), place(left + 1));
    if (right && !present[left]) kernels_.copy(place(left), place(left + 1));
    present[left] = present[left] || right;
  };
  for (size_t s = 0; s < samples.size(); ++s) {
    present.push_back(samples[s].count > 0);
    if (present.back()) {
      run(gradient.product(samples[s], place(present.size() - 1), false));
    }
    for (size_t carry = s; (carry & 1) != 0; carry >>= 1) merge();
  }
  while (present.size() > 1) merge();
  if (present.front()) {
    if (!in_place) add_sum(dw, place(0), place(1), accumulate);
  } else if (!accumulate) {
    kernels_.fill_bytes(dw, 0);
  }
}

// dw (+)= sum, in f32. `spare` is used where dw is none.
void MatrixProducts::add_sum(const Tensor& dw, const Tensor& sum, const Tensor& spare,
                             bool accumulate) {
  if (!accumulate) return kernels_.copy(dw, sum);
  if (dw.type == DType::f32) return kernels_.add(dw, sum);
  kernels_.copy(spare, dw);
  kernels_.add(spare, sum);
  kernels_.copy(dw, spare);
}

}  // namespace dettax
