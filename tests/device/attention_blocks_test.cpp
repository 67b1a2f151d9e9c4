// Attention over a sequence whose tokens are spread over several ranks in two pieces each, as context parallelism calls it: every
// rank's queries meet its own keys first, then those of one rank after the other.

#include <string>

#include "tests/device/attention_spread.h"

namespace dettax::test {
namespace {

struct SpreadCase {
  AttentionSizes s;
  int64_t ranks;
};
// Pieces of less than a block, exactly one, more than one with a short last; grouped heads, odd widths, one token a piece.
const SpreadCase kCases[] = {{{1, 4, 1, 1, 8}, 2},        {{2, 24, 4, 2, 13}, 2},
                             {{1, 256, 2, 2, 32}, 2},     {{2, 300, 4, 2, 40}, 2},
                             {{1, 130 * 6, 2, 1, 24}, 3}, {{3, 8 * 19, 6, 2, 16}, 4}};

TEST(AttentionBlocks, ForwardMatchesTheReference) {
  OpsOn on(2);
  for (const auto& [s, ranks] : kCases) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " ranks " << ranks);
    const AttentionProblem p(s);
    Spread spread(p, ranks);
    spread.forward(on);
    expect_close(spread.out, attention_reference(s, to_doubles(p.qkv)).out, 5e-6, "out");
  }
}

TEST(AttentionBlocks, EveryVariantOfTheGradientMatchesTheReference) {
  OpsOn on(3);
  for (const auto& [s, ranks] : kCases) {
    SCOPED_TRACE(testing::Message() << "tokens " << s.tokens << " ranks " << ranks);
    const AttentionProblem p(s);
    Spread spread(p, ranks);
    spread.forward(on);
    const Doubles expected = attention_gradient(s, to_doubles(p.qkv), to_doubles(p.dout));
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      for (const bool dynamic : {false, true})
        expect_close(spread.backward(on, {order, dynamic}), expected, 1e-5, "dqkv");
    }
  }
}

// The twin: a rank's keys that were not met are missing from the result.
TEST(AttentionBlocks, TheReferenceShowsABlockThatWasLeftOut) {
  OpsOn on(2);
  const AttentionProblem p({1, 24, 2, 2, 16});
  Spread spread(p, 3);
  spread.visits = [](int64_t rank) { return std::vector<int64_t>{(rank + 1) % 3}; };
  spread.forward(on);
  const Doubles expected = attention_reference(p.s, to_doubles(p.qkv)).out;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(spread.out[i]) - expected[i]));
  EXPECT_GT(worst, 0.1);
}

// Scores far apart, so that the maximum of a later block is far above or below that of the earlier ones.
TEST(AttentionBlocks, LargeScoresNeitherOverflowNorVanish) {
  OpsOn on(2);
  AttentionProblem p({1, 160, 1, 1, 32});
  p.qkv = random_floats(p.s.rows() * p.s.columns(), 5, 30);
  Spread spread(p, 2);
  spread.forward(on);
  expect_close(spread.out, attention_reference(p.s, to_doubles(p.qkv)).out, 2e-4, "out");
}

TEST(AttentionBlocks, DoNotDependOnThreads) {
  const AttentionProblem p({2, 600, 4, 2, 24});
  OpsOn one(1);
  Spread expected(p, 2);
  expected.forward(one);
  const Floats gradient = expected.backward(one, {Order::ordered});
  for (const int threads : {2, 3, 5}) {
    OpsOn on(threads);
    Spread again(p, 2);
    again.forward(on);
    EXPECT_TRUE(same_bits(expected.out, again.out)) << threads;
    EXPECT_TRUE(same_bits(gradient, again.backward(on, {Order::ordered}))) << threads;
    EXPECT_TRUE(same_bits(gradient, again.backward(on, {Order::invariant, true}))) << threads;
  }
}

// The twin of all equal bits: another order of ranks gives others.
TEST(AttentionBlocks, TheOrderOfCallsDecidesTheBits) {
  OpsOn on(2);
  const AttentionProblem p({1, 192, 2, 2, 32});
  Spread ring(p, 3);
  Spread other(p, 3);
  other.visits = [&](int64_t rank) {
    auto order = ring.visits(rank);
    std::reverse(order.begin(), order.end());
    return order;
  };
  ring.forward(on);
  other.forward(on);
  EXPECT_FALSE(same_bits(ring.out, other.out));
  other.forward(on);
  EXPECT_FALSE(same_bits(ring.backward(on, {}), other.backward(on, {})));
}

TEST(AttentionBlocks, OnlyArrivalDiffersFromRunToRun) {
  OpsOn on(2);
  for (const bool dynamic : {false, true}) {
    Spread spread(AttentionProblem({2, 2 * 192, 4, 4, 32}), 2);
    spread.forward(on);
    expect_only_arrival_differs([&](Order order) { return spread.backward(on, {order, dynamic}); });
  }
}

TEST(CopyColumns, CopiesOrAddsOnlyTheColumnsNamed) {
  OpsOn on(2);
  constexpr int64_t kRows = 3000;
  const Floats old = random_floats(kRows * 9, 1);
  Floats from = random_floats(kRows * 7, 2);
  for (const bool adds : {false, true}) {
    Floats to = old;
    on->copy_columns({tensor(to, {kRows, 9}), tensor(from, {kRows, 7}), 4, 1, 5, adds});
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t column = i % 9;
      const float moved = column < 4 ? 0 : from[i / 9 * 7 + column - 3];
      const float expected = column < 4 ? old[i] : adds ? old[i] + moved : moved;
      ASSERT_EQ(to[i], expected) << i;
    }
  }
  EXPECT_ANY_THROW(
      on->copy_columns({tensor(from, {kRows, 7}), tensor(from, {kRows, 7}), 3, 0, 5, false}));
}

}  // namespace
}  // namespace dettax::test
