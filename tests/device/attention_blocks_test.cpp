// Attention over a sequence whose tokens are spread over several ranks in two pieces each, as context parallelism calls it: every
// rank's queries meet its own keys first, then those of one rank after the other.

#include <string>

#include "tests/device/attention_problem.h"

namespace dettax::test {
namespace {

// One rank's part of a problem: pieces `rank` and 2 * ranks - 1 - rank of every sample.
struct Share {
  AttentionSizes whole;
  int64_t ranks, rank;
  int64_t piece() const { return whole.tokens / (2 * ranks); }
  AttentionSizes sizes() const {
    AttentionSizes s = whole;
    s.tokens = 2 * piece();
    return s;
  }
  TokenPlaces places() const { return {rank * piece(), (2 * ranks - 1 - rank) * piece()}; }
  // Of its row in the whole problem.
  int64_t whole_row(int64_t row) const {
    const int64_t tokens = 2 * piece();
    return row / tokens * whole.tokens + places().position(row % tokens, tokens);
  }
};

Floats take_rows(const Share& share, const Floats& whole, int64_t columns) {
  Floats part;
  for (int64_t r = 0; r < share.sizes().rows(); ++r) {
    const auto from = whole.begin() + share.whole_row(r) * columns;
    part.insert(part.end(), from, from + columns);
  }
  return part;
}
void put_rows(const Share& share, const Floats& part, int64_t columns, Floats& whole) {
  for (int64_t r = 0; r < share.sizes().rows(); ++r)
    std::copy_n(part.begin() + r * columns, columns, whole.begin() + share.whole_row(r) * columns);
}

struct Spread {
  AttentionSizes s;
  int64_t ranks;
  Floats out, log_sum_exp, dqkv;
  std::vector<AttentionProblem> parts;
  std::vector<Floats> keys_values;
  // Which ranks' keys a rank meets after its own, in order. By default as a ring brings them.
  std::function<std::vector<int64_t>(int64_t rank)> visits = [this](int64_t rank) {
    std::vector<int64_t> others;
    for (int64_t i = 1; i < ranks; ++i) others.push_back((rank + ranks - i) % ranks);
    return others;
  };

  Spread(const AttentionProblem& problem, int64_t ranks_of_it) : s(problem.s), ranks(ranks_of_it) {
    for (int64_t r = 0; r < ranks; ++r) {
      const Share share{s, ranks, r};
      AttentionProblem part(share.sizes());
      part.qkv = take_rows(share, problem.qkv, s.columns());
      part.dout = take_rows(share, problem.dout, s.out_columns());
      parts.push_back(part);
      Floats kv(static_cast<size_t>(part.s.rows() * key_columns()));
      OpsOn on(1);
      on->copy_columns({.to = tensor(kv, {part.s.rows(), key_columns()}),
                        .from = tensor(part.qkv, {part.s.rows(), s.columns()}),
                        .from_column = s.out_columns(),
                        .columns = key_columns()});
      keys_values.push_back(kv);
    }
  }
  Spread(const Spread&) = delete;

  int64_t key_columns() const { return 2 * s.key_value_heads * s.width; }

  // What of rank `other`'s keys stands before which of `rank`'s queries: the first piece before all, or all before the second.
  AttentionBlock block(int64_t rank, int64_t other) {
    const int64_t piece = Share{s, ranks, rank}.piece();
    const Tensor kv =
        tensor(keys_values[static_cast<size_t>(other)], {s.samples * 2 * piece, key_columns()});
    if (other < rank) return {kv, 0, 2 * piece, 0, piece};
    return {kv, piece, piece, 0, 2 * piece};
  }

  void forward(OpsOn& on) {
    out.assign(static_cast<size_t>(s.rows() * s.out_columns()), 0.0f);
    for (int64_t r = 0; r < ranks; ++r) {
      AttentionProblem& p = parts[static_cast<size_t>(r)];
      p.forward(on);
      AttentionForward call = p.forward_call();
      for (const int64_t other : visits(r)) {
        call.block = block(r, other);
        on->attention_forward(call);
      }
      put_rows({s, ranks, r}, p.out, s.out_columns(), out);
    }
  }

  const Floats& backward(OpsOn& on, SumOrder sum) {
    std::vector<Floats> gradients;
    for (AttentionProblem& p : parts) gradients.push_back(p.backward(on, sum));
    for (int64_t r = 0; r < ranks; ++r) {
      for (const int64_t other : visits(r)) add_block(on, sum, r, other, gradients);
    }
    dqkv.assign(static_cast<size_t>(s.rows() * s.columns()), 0.0f);
    for (int64_t r = 0; r < ranks; ++r)
      put_rows({s, ranks, r}, gradients[static_cast<size_t>(r)], s.columns(), dqkv);
    return dqkv;
  }

  void add_block(OpsOn& on, SumOrder sum, int64_t rank, int64_t other,
                 std::vector<Floats>& gradients) {
    AttentionProblem& p = parts[static_cast<size_t>(rank)];
    // Rows of no key here must stay as they are.
    Floats dkv(static_cast<size_t>(p.s.rows() * key_columns()), 0.0f);
    AttentionBackward call = p.backward_call(gradients[static_cast<size_t>(rank)], sum);
    call.block = block(rank, other);
    call.dkeys_values = tensor(dkv, {p.s.rows(), key_columns()});
    on->attention_backward(call);
    on->copy_columns(
        {.to = tensor(gradients[static_cast<size_t>(other)], {p.s.rows(), s.columns()}),
         .from = tensor(dkv, {p.s.rows(), key_columns()}),
         .to_column = s.out_columns(),
         .columns = key_columns(),
         .add = true});
  }
};

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
