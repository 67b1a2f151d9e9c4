#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "harness/device/device.h"

namespace dettax {

// Matrices of a linear layer with reproducible values of both signs and many magnitudes, so that sums depend on their order.
struct LinearData {
  LinearData(int64_t rows, int64_t inputs, int64_t outputs)
      : m(rows),
        k(inputs),
        n(outputs),
        x(values(m * k, 1)),
        w(values(n * k, 2)),
        bias(values(n, 3)),
        residual(values(m * n, 4)),
        dy(values(m * n, 5)),
        pre_activation(values(m * k, 6)) {}

  static std::vector<float> values(int64_t count, uint32_t seed) {
    std::vector<float> v(static_cast<size_t>(count));
    uint32_t state = seed * 2654435761U + 1;
    for (float& f : v) {
      state = state * 1664525U + 1013904223U;
      f = static_cast<float>(static_cast<double>(state >> 8) / (1 << 23) - 1.0);
    }
    return v;
  }

  int64_t m, k, n;
  std::vector<float> x, w, bias, residual, dy, pre_activation;
};

inline Tensor matrix(const std::vector<float>& values, int64_t rows, int64_t columns) {
  return make_tensor(const_cast<float*>(values.data()), DType::f32, {rows, columns});
}
inline Tensor vector_of(const std::vector<float>& values) {
  return make_tensor(const_cast<float*>(values.data()), DType::f32,
                     {static_cast<int64_t>(values.size())});
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Gradients {
  std::vector<float> dw, dbias;
  bool same_bits_as(const Gradients& other) const {
    return same_bits(dw, other.dw) && same_bits(dbias, other.dbias);
  }
};

inline std::vector<float> forward(Device& device, const LinearData& d, bool dynamic = false) {
  std::vector<float> y(static_cast<size_t>(d.m * d.n), NAN);
  device.ops().linear_forward({.y = matrix(y, d.m, d.n),
                               .x = matrix(d.x, d.m, d.k),
                               .w = matrix(d.w, d.n, d.k),
                               .bias = {},
                               .residual = {},
                               .pre_activation = {},
                               .epilogue = Epilogue::none,
                               .dynamic_schedule = dynamic});
  return y;
}

inline std::vector<float> backward_input(Device& device, const LinearData& d,
                                         bool dynamic = false) {
  std::vector<float> dx(static_cast<size_t>(d.m * d.k), NAN);
  device.ops().linear_backward_input({.dx = matrix(dx, d.m, d.k),
                                      .dy = matrix(d.dy, d.m, d.n),
                                      .w = matrix(d.w, d.n, d.k),
                                      .gelu_pre_activation = {},
                                      .accumulate = false,
                                      .dynamic_schedule = dynamic});
  return dx;
}

// Adds the gradient of rows [first, first + rows) of the batch to `to`, or replaces it.
inline void backward_weight(Device& device, const LinearData& d, int64_t first, int64_t rows,
                            int64_t samples, SumOrder sum, bool accumulate, Gradients& to) {
  const std::vector<float> dy(d.dy.begin() + first * d.n, d.dy.begin() + (first + rows) * d.n);
  const std::vector<float> x(d.x.begin() + first * d.k, d.x.begin() + (first + rows) * d.k);
  device.ops().linear_backward_weight({.dw = matrix(to.dw, d.n, d.k),
                                       .dbias = vector_of(to.dbias),
                                       .dy = matrix(dy, rows, d.n),
                                       .x = matrix(x, rows, d.k),
                                       .accumulate = accumulate,
                                       .samples = samples,
                                       .sum = sum});
}

inline Gradients fresh_gradients(const LinearData& d, float value = NAN) {
  return {std::vector<float>(static_cast<size_t>(d.n * d.k), value),
          std::vector<float>(static_cast<size_t>(d.n), value)};
}

inline Gradients backward_weight(Device& device, const LinearData& d, int64_t samples,
                                 SumOrder sum) {
  Gradients g = fresh_gradients(d);
  backward_weight(device, d, 0, d.m, samples, sum, false, g);
  return g;
}

}  // namespace dettax
