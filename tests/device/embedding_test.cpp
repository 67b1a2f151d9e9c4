#include <set>

#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

struct Shape {
  int64_t samples, tokens, width, vocabulary;
  int64_t rows() const { return samples * tokens; }
};

// Zipf-like ids: low ones often.
Ints skewed_ids(const Shape& s, uint32_t stream) {
  Ints ids = random_ints(s.rows(), stream, static_cast<int32_t>(s.vocabulary));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 3 != 0) ids[i] %= 3;
  }
  return ids;
}

struct Gradients {
  Floats table, positions;
  Floats all() const {
    Floats joined = table;
    joined.insert(joined.end(), positions.begin(), positions.end());
    return joined;
  }
};

Gradients backward(OpsOn& on, const Shape& s, Ints ids, Floats dy, SumOrder sum,
                   bool generic = false, Gradients old = {}) {
  if (old.table.empty()) old.table.assign(static_cast<size_t>(s.vocabulary * s.width), 0.0f);
  if (old.positions.empty()) old.positions.assign(static_cast<size_t>(s.tokens * s.width), 0.0f);
  on->embedding_backward({.dtable = tensor(old.table, {s.vocabulary, s.width}),
                          .dposition_table = tensor(old.positions, {s.tokens, s.width}),
                          .dy = tensor(dy, {s.rows(), s.width}),
                          .tokens = tensor(ids),
                          .samples = s.samples,
                          .sum = sum,
                          .generic = generic});
  return old;
}

void expect_matches_reference(const Shape& s, const Ints& ids, SumOrder sum, bool generic) {
  OpsOn on(2);
  const Floats dy = random_floats(s.rows() * s.width, 3);
  Gradients old{random_floats(s.vocabulary * s.width, 4), random_floats(s.tokens * s.width, 5)};
  Doubles table = to_doubles(old.table);
  Doubles positions = to_doubles(old.positions);
  for (int64_t r = 0; r < s.rows(); ++r) {
    for (int64_t c = 0; c < s.width; ++c) {
      const double v = static_cast<double>(dy[static_cast<size_t>(r * s.width + c)]);
      table[static_cast<size_t>(ids[static_cast<size_t>(r)] * s.width + c)] += v;
      positions[static_cast<size_t>(r % s.tokens * s.width + c)] += v;
    }
  }
  const Gradients actual = backward(on, s, ids, dy, sum, generic, old);
  expect_close(actual.table, table, 1e-5, "dtable");
  expect_close(actual.positions, positions, 1e-5, "dposition_table");
}

const Shape kShapes[] = {{1, 1, 5, 3}, {3, 7, 33, 11}, {8, 40, 192, 50}, {5, 13, 130, 2000}};

TEST(Embedding, PositionsAreThoseThatARankHas) {
  OpsOn on(2);
  const Shape s{2, 6, 20, 9};
  const TokenPlaces places{3, 18};  // rows 0, 1, 2 are tokens 3, 4, 5; rows 3, 4, 5 are 18, 19, 20
  Ints ids = random_ints(s.rows(), 1, static_cast<int32_t>(s.vocabulary));
  Floats table(static_cast<size_t>(s.vocabulary * s.width), 0.0f);
  Floats positions = random_floats(24 * s.width, 2);
  Floats y(static_cast<size_t>(s.rows() * s.width));
  on->embedding_forward({.y = tensor(y, {s.rows(), s.width}),
                         .tokens = tensor(ids),
                         .table = tensor(table, {s.vocabulary, s.width}),
                         .position_table = tensor(positions, {24, s.width}),
                         .samples = s.samples,
                         .places = places});
  for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
    Floats dpositions(positions.size(), 0.0f);
    on->embedding_backward({.dtable = tensor(table, {s.vocabulary, s.width}),
                            .dposition_table = tensor(dpositions, {24, s.width}),
                            .dy = tensor(y, {s.rows(), s.width}),
                            .tokens = tensor(ids),
                            .samples = s.samples,
                            .sum = {order},
                            .places = places});
    for (int64_t i = 0; i < 24 * s.width; ++i) {
      const int64_t p = i / s.width;
      const bool here = (p >= 3 && p < 6) || (p >= 18 && p < 21);
      const float expected = here ? 2 * positions[static_cast<size_t>(i)] : 0;
      ASSERT_EQ(dpositions[static_cast<size_t>(i)], expected) << p;
    }
  }
  for (int64_t r = 0; r < s.rows(); ++r) {
    const int64_t p = places.position(r % s.tokens, s.tokens);
    ASSERT_EQ(y[static_cast<size_t>(r * s.width)], positions[static_cast<size_t>(p * s.width)]);
  }
  EXPECT_EQ(places.end(s.tokens), 21);
}

TEST(Embedding, ForwardAddsTheRowsOfTokenAndPosition) {
  OpsOn on(2);
  for (const Shape& s : kShapes) {
    Ints ids = random_ints(s.rows(), 1, static_cast<int32_t>(s.vocabulary));
    Floats table = random_floats(s.vocabulary * s.width, 1);
    Floats positions = random_floats(s.tokens * s.width, 2);
    Floats y(static_cast<size_t>(s.rows() * s.width));
    on->embedding_forward({.y = tensor(y, {s.rows(), s.width}),
                           .tokens = tensor(ids),
                           .table = tensor(table, {s.vocabulary, s.width}),
                           .position_table = tensor(positions, {s.tokens, s.width}),
                           .samples = s.samples});
    for (int64_t i = 0; i < s.rows() * s.width; ++i) {
      const int64_t r = i / s.width;
      const int64_t c = i % s.width;
      const int64_t id = ids[static_cast<size_t>(r)];
      ASSERT_EQ(y[static_cast<size_t>(i)],
                table[static_cast<size_t>(id * s.width + c)] +
                    positions[static_cast<size_t>(r % s.tokens * s.width + c)]);
    }
  }
}

TEST(Embedding, EveryVariantOfTheGradientMatchesTheReference) {
  for (const Shape& s : kShapes) {
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      for (const bool dynamic : {false, true}) {
        expect_matches_reference(s, skewed_ids(s, 6), {order, dynamic}, false);
        expect_matches_reference(s, Ints(static_cast<size_t>(s.rows()), 1), {order, dynamic},
                                 false);
      }
    }
    expect_matches_reference(s, skewed_ids(s, 6), {}, true);
    expect_matches_reference(s, skewed_ids(s, 6), {Order::invariant}, true);
  }
}

TEST(Embedding, OrderedAndInvariantDoNotDependOnThreads) {
  const Shape s{8, 40, 200, 50};
  const Ints ids = skewed_ids(s, 7);
  const Floats dy = cancelling_floats(s.rows() * s.width, 8);
  for (const Order order : {Order::ordered, Order::invariant}) {
    OpsOn one(1);
    const Floats expected = backward(one, s, ids, dy, {order}).all();
    for (const int threads : {2, 3, 5}) {
      OpsOn many(threads);
      EXPECT_TRUE(same_bits(expected, backward(many, s, ids, dy, {order, true}).all())) << threads;
    }
  }
}

// Gradients of eight samples at once and of twice four.
std::pair<Floats, Floats> whole_and_halves(SumOrder sum, bool generic = false) {
  const Shape s{8, 24, 72, 40};
  const Shape half{4, 24, 72, 40};
  const Ints ids = skewed_ids(s, 9);
  const Floats dy = cancelling_floats(s.rows() * s.width, 10);
  OpsOn on(2);
  const Floats whole = backward(on, s, ids, dy, sum, generic).all();
  const auto middle_id = ids.begin() + half.rows();
  const auto middle_dy = dy.begin() + half.rows() * half.width;
  const Gradients first =
      backward(on, half, {ids.begin(), middle_id}, {dy.begin(), middle_dy}, sum, generic);
  const Gradients both =
      backward(on, half, {middle_id, ids.end()}, {middle_dy, dy.end()}, sum, generic, first);
  return {whole, both.all()};
}

TEST(Embedding, InvariantGradientsOfMicroBatchesAddUpToTheWhole) {
  const auto [whole, halves] = whole_and_halves({Order::invariant});
  EXPECT_TRUE(same_bits(whole, halves));
}

TEST(Embedding, GenericIndexOperationsKeepToTheInvariantOrder) {
  const auto [whole, halves] = whole_and_halves({Order::invariant}, true);
  EXPECT_TRUE(same_bits(whole, halves));
  EXPECT_TRUE(same_bits(whole, whole_and_halves({Order::invariant}).first));
  const auto [ordered_whole, ordered_halves] = whole_and_halves({Order::ordered}, true);
  EXPECT_FALSE(same_bits(ordered_whole, ordered_halves));
}

TEST(Embedding, OrderedGradientsDependOnTheMicroBatch) {
  const auto [whole, halves] = whole_and_halves({Order::ordered});
  EXPECT_FALSE(same_bits(whole, halves));
}

TEST(Embedding, OnlyArrivalDiffersFromRunToRun) {
  const Shape s{8, 64, 512, 16};
  const Ints ids = skewed_ids(s, 11);
  const Floats dy = cancelling_floats(s.rows() * s.width, 12);
  OpsOn on(2);
  for (const bool dynamic : {false, true}) {
    expect_only_arrival_differs(
        [&](Order order) { return backward(on, s, ids, dy, {order, dynamic}).all(); });
  }
  const auto generic = [&] { return backward(on, s, ids, dy, {Order::arrival, true}, true).all(); };
  EXPECT_EQ(runs_until_different(generic, 20), 0);
}

// Case run-01: 1024 tokens of 4 ids, added in order of arrival: only the rows of these ids differ.
TEST(Embedding, Run01OnlyRowsOfRepeatedTokensDiffer) {
  const Shape s{4, 256, 256, 100};
  Ints ids = random_ints(s.rows(), 13, 4);
  for (int32_t& id : ids) id = 10 + 20 * id;
  const Floats dy = cancelling_floats(s.rows() * s.width, 14);
  OpsOn on(3);
  const Floats first = backward(on, s, ids, dy, {Order::arrival, true}).table;
  std::set<size_t> rows;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (rows.size() < 4 && std::chrono::steady_clock::now() < end) {
    const Floats again = backward(on, s, ids, dy, {Order::arrival, true}).table;
    for (size_t e = 0; e < first.size(); ++e) {
      if (first[e] != again[e]) rows.insert(e / static_cast<size_t>(s.width));
    }
  }
  EXPECT_EQ(rows, (std::set<size_t>{10, 30, 50, 70}));
  const auto control = [&] { return backward(on, s, ids, dy, {Order::ordered, true}).table; };
  EXPECT_EQ(runs_until_different(control, 50), 0);
}

TEST(Embedding, TokenOutsideTheVocabularyIsAnError) {
  const Shape s{1, 4, 8, 5};
  OpsOn on(2);
  for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
    EXPECT_THROW(backward(on, s, {0, 1, 5, 2}, Floats(32), {order}), Error);
    EXPECT_THROW(backward(on, s, {0, -1, 3, 2}, Floats(32), {order}), Error);
  }
}

}  // namespace
}  // namespace dettax::test
