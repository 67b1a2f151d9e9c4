// Values of the linear operations against a reference in double precision.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "tests/device/linear_fixture.h"

namespace dettax {
namespace {

struct Size {
  int64_t m, k, n;
};

// One, primes, one less and one more than a tile of every instruction set, several panels, and a long sum that is cut.
constexpr Size kSizes[] = {{1, 1, 1},      {1, 17, 5},    {2, 3, 1},     {3, 64, 33},
                           {5, 16, 16},    {6, 31, 15},   {7, 100, 47},  {13, 129, 31},
                           {14, 32, 32},   {15, 33, 65},  {29, 257, 97}, {64, 64, 64},
                           {127, 61, 113}, {300, 40, 70}, {4, 4500, 40}, {33, 9001, 19}};

// Twice the argument of the tanh in gelu.
double gelu_argument(double x) { return 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
double gelu(double x) { return x / (1 + std::exp(-gelu_argument(x))); }
// The argument is rounded to f32, and e^u makes |u| ulps of that.
double gelu_tolerance(double x) {
  return 1.2e-7 * (4 + 2 * std::fabs(gelu_argument(x))) * std::fabs(gelu(x)) + 1e-36;
}
double gelu_slope(double x) {
  const double c = std::sqrt(2 / M_PI);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

// A sum and the bound on the error of any order of its f32 additions.
struct Sum {
  double value = 0, bound = 0;
  void add(double a, double b) {
    value += a * b;
    magnitude_ += std::fabs(a * b);
    ++terms_;
    bound = (terms_ + 4) * 0x1p-24 * (magnitude_ + 1);
  }

 private:
  double magnitude_ = 0, terms_ = 0;
};

class Linear : public testing::TestWithParam<Size> {
 protected:
  LinearData d_{GetParam().m, GetParam().k, GetParam().n};
  std::unique_ptr<Device> device_ = make_cpu_device(2, false);

  Sum product(int64_t i, int64_t j) const {
    Sum s;
    for (int64_t k = 0; k < d_.k; ++k) s.add(at(d_.x, i * d_.k + k), at(d_.w, j * d_.k + k));
    return s;
  }
  static double at(const std::vector<float>& v, int64_t i) {
    return static_cast<double>(v[static_cast<size_t>(i)]);
  }
  std::vector<float> output() const {
    return std::vector<float>(static_cast<size_t>(d_.m * d_.n), NAN);
  }
  LinearForward call(std::vector<float>& y, Epilogue epilogue) const {
    return {.y = matrix(y, d_.m, d_.n),
            .x = matrix(d_.x, d_.m, d_.k),
            .w = matrix(d_.w, d_.n, d_.k),
            .bias = vector_of(d_.bias),
            .residual = matrix(d_.residual, d_.m, d_.n),
            .pre_activation = {},
            .epilogue = epilogue,
            .dynamic_schedule = false};
  }
  // expected(sum, row, column) is what the epilogue makes of a sum.
  template <class Expected>
  void expect_outputs(const std::vector<float>& y, const Expected& expected) const {
    for (int64_t i = 0; i < d_.m; ++i) {
      for (int64_t j = 0; j < d_.n; ++j) {
        const Sum s = product(i, j);
        const double right = expected(s.value, i, j);
        ASSERT_NEAR(at(y, i * d_.n + j), right, 2 * s.bound + 4e-7 * std::fabs(right))
            << i << ", " << j;
      }
    }
  }
};

TEST_P(Linear, ForwardIsTheProduct) {
  expect_outputs(forward(*device_, d_), [](double sum, int64_t, int64_t) { return sum; });
}

TEST_P(Linear, ForwardAddsTheBias) {
  auto y = output();
  device_->ops().linear_forward(call(y, Epilogue::bias));
  expect_outputs(y, [&](double sum, int64_t, int64_t j) { return sum + at(d_.bias, j); });
}

TEST_P(Linear, ForwardAppliesGeluAndKeepsWhatWasBeforeIt) {
  auto y = output();
  auto before = output();
  LinearForward forward_call = call(y, Epilogue::bias_gelu);
  forward_call.pre_activation = matrix(before, d_.m, d_.n);
  device_->ops().linear_forward(forward_call);
  expect_outputs(before, [&](double sum, int64_t, int64_t j) { return sum + at(d_.bias, j); });
  for (int64_t i = 0; i < d_.m * d_.n; ++i) {
    const double right = gelu(at(before, i));
    ASSERT_NEAR(at(y, i), right, gelu_tolerance(at(before, i))) << at(before, i);
  }
}

TEST_P(Linear, ForwardAddsBiasAndResidual) {
  auto y = output();
  device_->ops().linear_forward(call(y, Epilogue::bias_residual));
  expect_outputs(y, [&](double sum, int64_t i, int64_t j) {
    return sum + at(d_.bias, j) + at(d_.residual, i * d_.n + j);
  });
}

TEST_P(Linear, ForwardMayWriteOverItsResidual) {
  auto y = d_.residual;
  LinearForward forward_call = call(y, Epilogue::residual);
  forward_call.residual = forward_call.y;
  device_->ops().linear_forward(forward_call);
  expect_outputs(
      y, [&](double sum, int64_t i, int64_t j) { return sum + at(d_.residual, i * d_.n + j); });
}

TEST_P(Linear, InputGradientIsTheProductInEveryForm) {
  for (const bool accumulate : {false, true}) {
    for (const bool through_gelu : {false, true}) {
      std::vector<float> dx(d_.x.size(), NAN);
      if (accumulate) dx = d_.x;
      device_->ops().linear_backward_input(
          {.dx = matrix(dx, d_.m, d_.k),
           .dy = matrix(d_.dy, d_.m, d_.n),
           .w = matrix(d_.w, d_.n, d_.k),
           .gelu_pre_activation = through_gelu ? matrix(d_.pre_activation, d_.m, d_.k) : Tensor{},
           .accumulate = accumulate,
           .dynamic_schedule = false});
      for (int64_t i = 0; i < d_.m; ++i) {
        for (int64_t k = 0; k < d_.k; ++k) {
          Sum s;
          for (int64_t j = 0; j < d_.n; ++j) s.add(at(d_.dy, i * d_.n + j), at(d_.w, j * d_.k + k));
          double right = s.value + (accumulate ? at(d_.x, i * d_.k + k) : 0);
          if (through_gelu) right *= gelu_slope(at(d_.pre_activation, i * d_.k + k));
          ASSERT_NEAR(at(dx, i * d_.k + k), right, 2 * s.bound + 1e-6 * std::fabs(right))
              << i << ", " << k;
        }
      }
    }
  }
}

TEST_P(Linear, WeightGradientIsTheProductInEveryOrder) {
  for (const SumOrder sum : {SumOrder{Order::arrival, false}, SumOrder{Order::arrival, true},
                             SumOrder{Order::ordered, false}, SumOrder{Order::ordered, true},
                             SumOrder{Order::invariant, false}, SumOrder{Order::invariant, true}}) {
    for (const bool accumulate : {false, true}) {
      Gradients g = fresh_gradients(d_, accumulate ? 0.5f : NAN);
      const int64_t samples = d_.m % 3 == 0 ? 3 : 1;
      backward_weight(*device_, d_, 0, d_.m, samples, sum, accumulate, g);
      for (int64_t j = 0; j < d_.n; ++j) {
        Sum column;
        for (int64_t i = 0; i < d_.m; ++i) column.add(at(d_.dy, i * d_.n + j), 1);
        ASSERT_NEAR(at(g.dbias, j), column.value + (accumulate ? 0.5 : 0), column.bound) << j;
        for (int64_t k = 0; k < d_.k; ++k) {
          Sum s;
          for (int64_t i = 0; i < d_.m; ++i) s.add(at(d_.dy, i * d_.n + j), at(d_.x, i * d_.k + k));
          ASSERT_NEAR(at(g.dw, j * d_.k + k), s.value + (accumulate ? 0.5 : 0), s.bound)
              << j << ", " << k;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Linear, testing::ValuesIn(kSizes),
                         [](const testing::TestParamInfo<Size>& size) {
                           return std::to_string(size.param.m) + "x" +
                                  std::to_string(size.param.k) + "x" + std::to_string(size.param.n);
                         });

TEST(LinearWeightGradient, WorksWithoutABias) {
  const LinearData d(40, 20, 30);
  const auto device = make_cpu_device(2, false);
  const Gradients with = backward_weight(*device, d, 1, {Order::ordered, false});
  Gradients without = fresh_gradients(d);
  device->ops().linear_backward_weight({.dw = matrix(without.dw, d.n, d.k),
                                        .dbias = {},
                                        .dy = matrix(d.dy, d.m, d.n),
                                        .x = matrix(d.x, d.m, d.k),
                                        .accumulate = false,
                                        .samples = 1,
                                        .sum = {}});
  EXPECT_TRUE(same_bits(with.dw, without.dw));
}

TEST(LinearForward, PassesNanOnInItsRowOnly) {
  LinearData d(20, 30, 40);
  d.x[5 * 30 + 3] = NAN;
  const auto y = forward(*make_cpu_device(2, false), d);
  for (int64_t i = 0; i < d.m * d.n; ++i)
    EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i / d.n == 5);
}

TEST(LinearForward, GeluIsRightFarFromZero) {
  const auto device = make_cpu_device(1, false);
  const std::vector<float> x{-100,   -20, -9, -5.5f, -1e-3f, -0.0f,    0,
                             1e-20f, 3,   10, 90,    1e10f,  INFINITY, NAN};
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size()), before(x.size()), one{1}, zero(1);
  device->ops().linear_forward({.y = matrix(y, count, 1),
                                .x = matrix(x, count, 1),
                                .w = matrix(one, 1, 1),
                                .bias = vector_of(zero),
                                .residual = {},
                                .pre_activation = matrix(before, count, 1),
                                .epilogue = Epilogue::bias_gelu,
                                .dynamic_schedule = false});
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const double value = static_cast<double>(x[i]);
    EXPECT_NEAR(static_cast<double>(y[i]), gelu(value), gelu_tolerance(value)) << x[i];
  }
  EXPECT_EQ(y[x.size() - 2], INFINITY);
  EXPECT_TRUE(std::isnan(y.back()));
}

TEST(LinearForward, RefusesShapesThatDoNotFit) {
  const auto device = make_cpu_device(1, false);
  const std::vector<float> data(100);
  const auto refuses = [&](Tensor y, Tensor x, Tensor w, Epilogue epilogue = Epilogue::none) {
    try {
      device->ops().linear_forward({.y = y,
                                    .x = x,
                                    .w = w,
                                    .bias = {},
                                    .residual = {},
                                    .pre_activation = {},
                                    .epilogue = epilogue,
                                    .dynamic_schedule = false});
    } catch (const Error& error) {
      return error.kind() == ErrorKind::internal;
    }
    return false;
  };
  EXPECT_TRUE(refuses(matrix(data, 2, 3), matrix(data, 2, 5), matrix(data, 3, 4)));
  EXPECT_TRUE(refuses(matrix(data, 2, 4), matrix(data, 2, 5), matrix(data, 3, 5)));
  EXPECT_TRUE(refuses(matrix(data, 0, 3), matrix(data, 0, 5), matrix(data, 3, 5)));
  EXPECT_TRUE(refuses(matrix(data, 2, 3), matrix(data, 2, 0), matrix(data, 3, 0)));
  EXPECT_TRUE(refuses(matrix(data, 2, 3), matrix(data, 2, 5), matrix(data, 3, 5), Epilogue::bias));
  EXPECT_FALSE(refuses(matrix(data, 2, 3), matrix(data, 2, 5), matrix(data, 3, 5)));
}

TEST(LinearWeightGradient, RefusesRowsThatAreNoWholeSamples) {
  const LinearData d(10, 4, 4);
  EXPECT_THROW(backward_weight(*make_cpu_device(1, false), d, 3, {Order::invariant, false}), Error);
}

}  // namespace
}  // namespace dettax
