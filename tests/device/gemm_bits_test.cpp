// What the linear operations promise about bits, each with a twin that shows that the comparison can fail.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/device/linear_fixture.h"

namespace dettax {
namespace {

constexpr SumOrder kInvariant{Order::invariant, false};
constexpr SumOrder kOrdered{Order::ordered, false};

// Every result of the three operations, for one device.
std::vector<std::vector<float>> all_results(Device& device, const LinearData& d, bool dynamic,
                                            SumOrder sum) {
  const Gradients g = backward_weight(device, d, 4, sum);
  return {forward(device, d, dynamic), backward_input(device, d, dynamic), g.dw, g.dbias};
}

bool all_same_bits(const std::vector<std::vector<float>>& a,
                   const std::vector<std::vector<float>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
}

TEST(LinearBits, DoNotDependOnThreads) {
  const LinearData d(4 * 37, 83, 131);
  for (const SumOrder sum : {kOrdered, kInvariant, SumOrder{Order::invariant, true}}) {
    const auto one = all_results(*make_cpu_device(1, false), d, false, sum);
    for (int threads : {2, 3, 7}) {
      for (bool dynamic : {false, true}) {
        EXPECT_TRUE(
            all_same_bits(all_results(*make_cpu_device(threads, false), d, dynamic, sum), one))
            << threads << " threads, dynamic " << dynamic;
      }
    }
  }
}

// Twin of the one above: the same terms in another order have other bits.
TEST(LinearBits, DependOnTheOrderOfTerms) {
  const LinearData d(12, 83, 31);
  LinearData reversed = d;
  for (int64_t i = 0; i < d.m; ++i)
    std::reverse(reversed.x.begin() + i * d.k, reversed.x.begin() + (i + 1) * d.k);
  for (int64_t j = 0; j < d.n; ++j)
    std::reverse(reversed.w.begin() + j * d.k, reversed.w.begin() + (j + 1) * d.k);
  const auto device = make_cpu_device(2, false);
  EXPECT_FALSE(same_bits(forward(*device, d), forward(*device, reversed)));
}

TEST(LinearBits, OfARowDoNotDependOnTheOtherRows) {
  const LinearData d(61, 4500, 33);
  const auto device = make_cpu_device(2, false);
  const auto y = forward(*device, d);
  const auto dx = backward_input(*device, d);
  for (int64_t row : {0, 13, 14, 60}) {
    LinearData alone(1, d.k, d.n);
    alone.w = d.w;
    alone.x.assign(d.x.begin() + row * d.k, d.x.begin() + (row + 1) * d.k);
    alone.dy.assign(d.dy.begin() + row * d.n, d.dy.begin() + (row + 1) * d.n);
    const std::vector<float> y_row(y.begin() + row * d.n, y.begin() + (row + 1) * d.n);
    const std::vector<float> dx_row(dx.begin() + row * d.k, dx.begin() + (row + 1) * d.k);
    EXPECT_TRUE(same_bits(forward(*device, alone), y_row)) << row;
    EXPECT_TRUE(same_bits(backward_input(*device, alone), dx_row)) << row;
  }
}

// A sum of fused multiply-adds is one chain in order of k, also where K is cut into blocks.
TEST(LinearBits, AreThoseOfOneChain) {
  const LinearData d(3, 9001, 5);
  const auto y = forward(*make_cpu_device(2, false), d);
  for (int64_t i = 0; i < d.m; ++i) {
    for (int64_t j = 0; j < d.n; ++j) {
      float chain = 0;
      for (int64_t k = 0; k < d.k; ++k) {
        chain = std::fma(d.x[static_cast<size_t>(i * d.k + k)],
                         d.w[static_cast<size_t>(j * d.k + k)], chain);
      }
      EXPECT_EQ(chain, y[static_cast<size_t>(i * d.n + j)]);
    }
  }
}

class SampleSplit : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
};  // tokens of a sample, samples

bool halves_agree(const std::pair<int64_t, int64_t>& shape, const SumOrder& order) {
  const auto [tokens, samples] = shape;
  const LinearData d(tokens * samples, 45, 29);
  const auto device = make_cpu_device(2, false);
  Gradients once = fresh_gradients(d, 0), twice = once;
  backward_weight(*device, d, 0, d.m, samples, order, true, once);
  backward_weight(*device, d, 0, d.m / 2, samples / 2, order, true, twice);
  backward_weight(*device, d, d.m / 2, d.m / 2, samples / 2, order, true, twice);
  return once.same_bits_as(twice);
}

TEST_P(SampleSplit, TwoCallsWithHalfTheSamplesGiveTheSameBits) {
  EXPECT_TRUE(halves_agree(GetParam(), kInvariant));
}

TEST_P(SampleSplit, UnderTheOrderOfTheLayoutTheyDoNot) {
  EXPECT_FALSE(halves_agree(GetParam(), kOrdered));
}

INSTANTIATE_TEST_SUITE_P(Samples, SampleSplit,
                         testing::Values(std::pair{17, 8}, std::pair{64, 8}, std::pair{31, 2},
                                         std::pair{5, 4}));

TEST(LinearWeightGradientBits, AreThoseOfTheTreeOverSamples) {
  const LinearData d(6 * 11, 9, 7);
  const Gradients g = backward_weight(*make_cpu_device(2, false), d, 6, kInvariant);
  for (int64_t j = 0; j < d.n; ++j) {
    for (int64_t k = 0; k < d.k; ++k) {
      float s[6] = {};
      for (int64_t row = 0; row < d.m; ++row) {
        s[row / 11] = std::fma(d.dy[static_cast<size_t>(row * d.n + j)],
                               d.x[static_cast<size_t>(row * d.k + k)], s[row / 11]);
      }
      EXPECT_EQ(g.dw[static_cast<size_t>(j * d.k + k)],
                ((s[0] + s[1]) + (s[2] + s[3])) + (s[4] + s[5]));
    }
  }
}

TEST(LinearWeightGradientBits, UnderArrivalDifferFromRunToRun) {
  const LinearData d(1024, 512, 256);
  const auto device = make_cpu_device(4, true);
  const SumOrder arrival{Order::arrival, true};
  const Gradients first = backward_weight(*device, d, 4, arrival);
  bool differed = false;
  for (int run = 0; run < 200 && !differed; ++run) {
    differed = !backward_weight(*device, d, 4, arrival).same_bits_as(first);
  }
  EXPECT_TRUE(differed);
}

TEST(LinearWeightGradientBits, UnderAFixedOrderNeverDiffer) {
  const LinearData d(1024, 512, 256);
  for (const SumOrder sum : {kOrdered, kInvariant}) {
    const auto device = make_cpu_device(4, true);
    const Gradients first = backward_weight(*device, d, 4, sum);
    for (int run = 0; run < 20; ++run)
      EXPECT_TRUE(backward_weight(*device, d, 4, sum).same_bits_as(first));
  }
}

// The first calls of a shape try several chunks, and chunks of another size are another order.
TEST(LinearWeightGradientBits, UnderADynamicScheduleDependOnTheChosenChunk) {
  const LinearData d(512, 64, 64);
  const auto device = make_cpu_device(2, false);
  const Gradients first = backward_weight(*device, d, 4, {Order::ordered, true});
  const Gradients second = backward_weight(*device, d, 4, {Order::ordered, true});
  EXPECT_FALSE(first.same_bits_as(second));
}

// Runs a test body once for each instruction set that has fused multiply-add, and puts the choice back.
class EachTarget : public testing::Test {
 protected:
  template <class Body>
  static std::vector<int64_t> for_each(const Body& body) {
    std::vector<int64_t> tried;
    for (int64_t target : {HWY_AVX2, HWY_AVX3, HWY_NEON}) {
      if ((hwy::SupportedTargets() & target) == 0) continue;
      hwy::SetSupportedTargetsForTest(target);
      body();
      hwy::SetSupportedTargetsForTest(0);
      tried.push_back(target);
    }
    return tried;
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_F(EachTarget, GivesTheSameBits) {
  const LinearData d(4 * 37, 83, 131);
  std::vector<std::vector<std::vector<float>>> results;
  std::vector<std::string> names;
  for_each([&] {
    const auto device = make_cpu_device(2, false);
    names.push_back(device->description());
    auto all = all_results(*device, d, false, kInvariant);
    std::vector<float> y(static_cast<size_t>(d.m * d.n)), before = y;
    device->ops().linear_forward({.y = matrix(y, d.m, d.n),
                                  .x = matrix(d.x, d.m, d.k),
                                  .w = matrix(d.w, d.n, d.k),
                                  .bias = vector_of(d.bias),
                                  .residual = {},
                                  .pre_activation = matrix(before, d.m, d.n),
                                  .epilogue = Epilogue::bias_gelu,
                                  .dynamic_schedule = false});
    all.push_back(y);
    results.push_back(all);
  });
  if (results.size() < 2) GTEST_SKIP() << "this machine has only one of the instruction sets";
  EXPECT_NE(names[0], names[1]) << "the instruction set was not switched";
  for (const auto& result : results) EXPECT_TRUE(all_same_bits(result, results.front()));
}

// x * x - x * x is the rounding error of the square if the second product is fused into the difference, and 0 if it is rounded.
TEST_F(EachTarget, FusesItsMultiplyAdds) {
  const float x = 1 + 0x1p-12f;
  const float error = std::fma(-x, x, x * x);
  ASSERT_NE(error, 0);
  for_each([&] {
    LinearData d(1, 2, 1);
    d.x = {x, -x};
    d.w = {x, x};
    EXPECT_EQ(forward(*make_cpu_device(1, false), d)[0], error);
    LinearData columns(2, 1, 1);
    columns.dy = {x, -x};
    columns.x = {x, x};
    EXPECT_EQ(backward_weight(*make_cpu_device(1, false), columns, 1, kOrdered).dw[0], error);
  });
}

}  // namespace
}  // namespace dettax
