#include "tests/device/attention_problem.h"

namespace dettax::test {
namespace {

// One row, less than a block, exactly one, several with a short last one, grouped heads, odd widths.
const AttentionSizes kShapes[] = {{1, 1, 1, 1, 32},    {2, 3, 2, 1, 8},   {1, 50, 2, 2, 24},
                                  {2, 64, 2, 2, 64},   {1, 65, 1, 1, 40}, {2, 130, 4, 2, 32},
                                  {1, 192, 1, 1, 128}, {3, 77, 3, 1, 13}, {1, 100, 1, 1, 256},
                                  {1, 200, 6, 2, 80}};

TEST(Attention, ForwardMatchesTheReference) {
  OpsOn on(2);
  for (const AttentionSizes& s : kShapes) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
    AttentionProblem p(s);
    p.forward(on);
    const AttentionReference expected = attention_reference(s, to_doubles(p.qkv));
    expect_close(p.out, expected.out, 5e-6, "out");
    expect_close(p.log_sum_exp, expected.log_sum_exp, 2e-6, "log_sum_exp");
  }
}

TEST(Attention, EveryVariantOfTheGradientMatchesTheReference) {
  OpsOn on(3);
  for (const AttentionSizes& s : kShapes) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " width " << s.width);
    AttentionProblem p(s);
    p.forward(on);
    const Doubles expected = attention_gradient(s, to_doubles(p.qkv), to_doubles(p.dout));
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      for (const bool dynamic : {false, true}) {
        expect_close(p.backward(on, {order, dynamic}), expected, 1e-5, "dqkv");
      }
    }
  }
}

TEST(Attention, ReferenceGradientMatchesDifferencesOfTheReference) {
  const AttentionSizes s{2, 9, 4, 2, 6};
  AttentionProblem p(s);
  Doubles qkv = to_doubles(p.qkv);
  const Doubles dout = to_doubles(p.dout);
  const Doubles gradient = attention_gradient(s, qkv, dout);
  for (size_t i = 0; i < qkv.size(); i += 5) {
    const double expected =
        slope([&] { return dot(dout, attention_reference(s, qkv).out); }, qkv, i);
    ASSERT_NEAR(gradient[i], expected, 1e-6) << i;
  }
}

// Scores far apart: a running maximum that was off would overflow, one that was not shrunk would
// leave what was summed before it.
TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  const AttentionSizes s{1, 150, 1, 1, 32};
  OpsOn on(2);
  AttentionProblem p(s);
  p.qkv = random_floats(s.rows() * s.columns(), 5, 30);
  p.forward(on);
  const AttentionReference expected = attention_reference(s, to_doubles(p.qkv));
  expect_close(p.out, expected.out, 2e-4, "out");
  expect_close(p.log_sum_exp, expected.log_sum_exp, 2e-6, "log_sum_exp");
}

TEST(Attention, DoesNotDependOnThreadsOrOnOtherSamples) {
  const AttentionSizes s{4, 150, 4, 2, 40};
  AttentionProblem whole(s);
  OpsOn one(1);
  whole.forward(one);
  const Floats expected = whole.backward(one, {Order::invariant});
  for (const int threads : {2, 3}) {
    OpsOn on(threads);
    AttentionProblem again(s);
    again.forward(on);
    EXPECT_TRUE(same_bits(whole.out, again.out));
    EXPECT_TRUE(same_bits(expected, again.backward(on, {Order::invariant, true})));
    EXPECT_TRUE(same_bits(expected, again.backward(on, {Order::ordered, false})));
  }
  AttentionProblem last({1, 150, 4, 2, 40});
  std::copy(whole.qkv.end() - static_cast<int64_t>(last.qkv.size()), whole.qkv.end(),
            last.qkv.begin());
  std::copy(whole.dout.end() - static_cast<int64_t>(last.dout.size()), whole.dout.end(),
            last.dout.begin());
  last.forward(one);
  const Floats gradient = last.backward(one, {Order::invariant});
  EXPECT_TRUE(std::equal(gradient.begin(), gradient.end(),
                         expected.end() - static_cast<int64_t>(gradient.size())));
}

// With fewer heads than threads, key blocks wait for each other instead of sharing a thread.
TEST(Attention, FewHeadsKeepTheOrderOfKeys) {
  const AttentionSizes s{1, 400, 2, 1, 40};
  OpsOn one(1);
  AttentionProblem p(s);
  p.forward(one);
  const Floats expected = p.backward(one, {Order::ordered});
  for (const int threads : {2, 3, 5}) {
    OpsOn on(threads);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(same_bits(expected, p.backward(on, {Order::ordered}))) << threads;
    }
  }
}

// Three blocks of keys are the least at which an order of three contributions exists.
TEST(Attention, OnlyArrivalDiffersFromRunToRun) {
  OpsOn on(2);
  for (const bool dynamic : {false, true}) {
    AttentionProblem p({2, 192, 4, 4, 32});
    p.forward(on);
    expect_only_arrival_differs([&](Order order) { return p.backward(on, {order, dynamic}); });
  }
}

TEST(Attention, OnlyQueryGradientsDependOnArrival) {
  const AttentionSizes s{2, 256, 4, 4, 32};
  OpsOn on(3);
  AttentionProblem p(s);
  p.forward(on);
  const Floats first = p.backward(on, {Order::arrival, true});
  bool queries_differ = false;
  for (uint64_t i = 1; i <= 1000 && !queries_differ; ++i) {
    on.team.set_jitter(i);
    const Floats again = p.backward(on, {Order::arrival, true});
    for (size_t e = 0; e < first.size(); ++e) {
      if (first[e] == again[e]) continue;
      ASSERT_LT(static_cast<int64_t>(e) % s.columns(), s.out_columns()) << "a key or a value";
      queries_differ = true;
    }
  }
  EXPECT_TRUE(queries_differ);
}

}  // namespace
}  // namespace dettax::test
