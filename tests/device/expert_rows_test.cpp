#include "tests/device/expert_fixture.h"

namespace dettax::test {
namespace {

int64_t kept_rows(const Plan& p) { return p.segments.back(); }

void expect_consistent(const ExpertShape& s, const Ints& experts, const Plan& p, bool by_sample) {
  for (size_t i = 0; i < p.slots.size(); ++i) {
    const int32_t slot = p.slots[i];
    if (slot < 0) continue;
    ASSERT_EQ(p.sources[static_cast<size_t>(slot)], static_cast<int32_t>(i));
    const auto row = static_cast<size_t>(experts[i]) * static_cast<size_t>(s.samples + 1);
    const auto sample = i / static_cast<size_t>(s.tokens * s.choices);
    ASSERT_GE(slot, p.segments[row + (by_sample ? sample : 0)]);
    ASSERT_LT(slot, p.segments[row + (by_sample ? sample + 1 : static_cast<size_t>(s.samples))]);
  }
  const auto used = std::count_if(p.slots.begin(), p.slots.end(), [](int32_t v) { return v >= 0; });
  EXPECT_EQ(used, kept_rows(p));
  for (auto i = static_cast<size_t>(used); i < p.sources.size(); ++i) EXPECT_EQ(p.sources[i], -1);
}

TEST(ExpertPlan, EveryChoiceHasARowAmongThoseOfItsExpert) {
  for (const ExpertShape& s : kExpertShapes) {
    const Ints experts = skewed_choices(s, 1);
    for (const SumOrder& sum : kAllSums) {
      OpsOn on(3);
      Plan p;
      plan(on, s, experts, sum, p);
      EXPECT_EQ(kept_rows(p), s.slots());
      expect_consistent(s, experts, p, sum.order != Order::arrival);
    }
  }
}

TEST(ExpertPlan, OrderedRowsOfAnExpertStandInOrderOfPosition) {
  const ExpertShape s{4, 40, 1, 8, 2};
  OpsOn on(2);
  Plan p;
  plan(on, s, skewed_choices(s, 2), {Order::ordered, true}, p);
  for (size_t e = 0; e < 8; ++e) {
    const auto begin = p.sources.begin() + p.segments[e * 5];
    const auto end = p.sources.begin() + p.segments[e * 5 + 4];
    EXPECT_TRUE(std::is_sorted(begin, end));
  }
}

TEST(ExpertPlan, ChoicesBeyondTheCapacityOfASampleAreDroppedByPosition) {
  const ExpertShape s{2, 6, 1, 3, 1};
  const Ints experts{0, 0, 1, 0, 0, 2, 1, 1, 1, 1, 0, 1};
  for (const SumOrder& sum : kAllSums) {
    OpsOn on(2);
    Plan p;
    plan(on, s, experts, sum, p, 2);
    expect_consistent(s, experts, p, sum.order != Order::arrival);
    Ints dropped;
    for (size_t i = 0; i < p.slots.size(); ++i) {
      if (p.slots[i] < 0) dropped.push_back(static_cast<int32_t>(i));
    }
    EXPECT_EQ(dropped, (Ints{3, 4, 8, 9, 11}));
    EXPECT_EQ(p.counts, (Ints{4, 1, 1, 1, 5, 0}));
  }
}

TEST(ExpertPlan, AnExpertThatDoesNotExistIsAnError) {
  OpsOn on(1);
  Plan p;
  EXPECT_THROW(plan(on, {1, 1, 1, 3, 2}, {0, 3}, {}, p), Error);
  EXPECT_THROW(plan(on, {1, 1, 1, 3, 2}, {-1, 0}, {}, p), Error);
}

// As numbers, so that the comparison of bits applies.
Floats slots_in(const ExpertShape& s, OpsOn& on, const Ints& experts, SumOrder sum) {
  Plan p;
  plan(on, s, experts, sum, p);
  return {p.slots.begin(), p.slots.end()};
}

TEST(ExpertPlan, OnlyArrivalDiffersFromRunToRun) {
  const ExpertShape s{8, 128, 1, 8, 2};
  const Ints experts = skewed_choices(s, 3);
  OpsOn on(2);
  expect_only_arrival_differs([&](Order order) { return slots_in(s, on, experts, {order, true}); });
}

// --- rows ---------------------------------------------------------------------------------------------------------

struct RowData {
  explicit RowData(const ExpertShape& shape)
      : s(shape),
        experts(skewed_choices(s, 4)),
        rows(cancelling_floats(s.slots() * s.width, 5)),
        weights(random_floats(s.slots(), 6)),
        residual(random_floats(s.rows() * s.width, 7)) {}
  ExpertShape s;
  Ints experts;
  Floats rows, weights, residual;
};

Floats unpermuted(OpsOn& on, RowData& d, const Plan& p, SumOrder sum, bool generic = false) {
  Floats y(d.residual.size());
  on->unpermute_rows({.y = tensor(y, {d.s.rows(), d.s.width}),
                      .rows = tensor(d.rows, {d.s.slots(), d.s.width}),
                      .weights = tensor(d.weights, {d.s.rows(), d.s.choices}),
                      .residual = tensor(d.residual, {d.s.rows(), d.s.width}),
                      .plan = p.view,
                      .sum = sum,
                      .generic = generic});
  return y;
}

Doubles unpermuted_reference(const RowData& d, const Plan& p) {
  Doubles y = to_doubles(d.residual);
  const auto width = static_cast<size_t>(d.s.width);
  for (size_t i = 0; i < p.slots.size(); ++i) {
    if (p.slots[i] < 0) continue;
    for (size_t c = 0; c < width; ++c) {
      y[i / static_cast<size_t>(d.s.choices) * width + c] +=
          static_cast<double>(d.weights[i]) *
          static_cast<double>(d.rows[static_cast<size_t>(p.slots[i]) * width + c]);
    }
  }
  return y;
}

TEST(ExpertRows, PermutedRowsAreThoseOfTheirTokens) {
  for (const ExpertShape& s : kExpertShapes) {
    OpsOn on(2);
    Plan p;
    plan(on, s, skewed_choices(s, 8), {}, p, 5);
    Floats x = random_floats(s.rows() * s.width, 9);
    Floats y(static_cast<size_t>(s.slots() * s.width), 77.0f);
    on->permute_rows({tensor(y, {s.slots(), s.width}), tensor(x, {s.rows(), s.width}),
                      p.view.sources, s.choices});
    for (int64_t i = 0; i < s.slots() * s.width; ++i) {
      const int32_t source = p.sources[static_cast<size_t>(i / s.width)];
      const float expected =
          source < 0 ? 77.0f : x[static_cast<size_t>(source / s.choices * s.width + i % s.width)];
      ASSERT_EQ(y[static_cast<size_t>(i)], expected);
    }
  }
}

TEST(ExpertRows, EveryVariantOfUnpermuteMatchesTheReference) {
  for (const ExpertShape& s : kExpertShapes) {
    RowData d(s);
    for (const int64_t capacity : {int64_t{0}, int64_t{5}}) {
      for (const SumOrder& sum : kAllSums) {
        for (const bool generic : {false, true}) {
          OpsOn on(2);
          Plan p;
          plan(on, s, d.experts, sum, p, capacity);
          expect_close(unpermuted(on, d, p, sum, generic), unpermuted_reference(d, p), 1e-5, "y");
        }
      }
    }
  }
}

TEST(ExpertRows, WithoutWeightsAndResidualRowsAreJustAdded) {
  RowData d({2, 9, 20, 4, 2});
  OpsOn on(2);
  Plan p;
  plan(on, d.s, d.experts, {}, p, 3);
  for (const Order order : {Order::arrival, Order::ordered}) {
    Floats y(d.residual.size(), 9.0f);
    on->unpermute_rows({.y = tensor(y, {d.s.rows(), d.s.width}),
                        .rows = tensor(d.rows, {d.s.slots(), d.s.width}),
                        .weights = {},
                        .residual = {},
                        .plan = p.view,
                        .sum = {order},
                        .generic = false});
    RowData ones = d;
    ones.weights.assign(ones.weights.size(), 1.0f);
    ones.residual.assign(ones.residual.size(), 0.0f);
    expect_close(y, unpermuted_reference(ones, p), 1e-5, "y");
  }
}

TEST(ExpertRows, TheResultMayReplaceTheResidual) {
  RowData d({2, 9, 20, 4, 2});
  OpsOn on(2);
  Plan p;
  plan(on, d.s, d.experts, {}, p);
  for (const Order order : {Order::arrival, Order::ordered}) {
    Floats y = d.residual;
    const Tensor view = tensor(y, {d.s.rows(), d.s.width});
    on->unpermute_rows({.y = view,
                        .rows = tensor(d.rows, {d.s.slots(), d.s.width}),
                        .weights = tensor(d.weights, {d.s.rows(), d.s.choices}),
                        .residual = view,
                        .plan = p.view,
                        .sum = {order},
                        .generic = false});
    expect_close(y, unpermuted_reference(d, p), 1e-5, "y");
  }
}

TEST(ExpertRows, OnlyArrivalDiffersFromRunToRun) {
  RowData d({8, 64, 512, 8, 3});
  OpsOn on(2);
  Plan p;
  plan(on, d.s, d.experts, {}, p);
  for (const bool dynamic : {false, true}) {
    expect_only_arrival_differs(
        [&](Order order) { return unpermuted(on, d, p, {order, dynamic}); });
  }
  const auto generic = [&] { return unpermuted(on, d, p, {Order::arrival, true}, true); };
  EXPECT_EQ(runs_until_different(generic, 20), 0);
}

TEST(ExpertRows, OrderedAndInvariantDoNotDependOnThreads) {
  RowData d({8, 16, 72, 8, 3});
  for (const Order order : {Order::ordered, Order::invariant}) {
    OpsOn one(1);
    Plan p;
    plan(one, d.s, d.experts, {order}, p);
    const Floats expected = unpermuted(one, d, p, {order});
    for (const int threads : {2, 3, 5}) {
      OpsOn many(threads);
      Plan q;
      plan(many, d.s, d.experts, {order, true}, q);
      EXPECT_EQ(p.slots, q.slots);
      EXPECT_TRUE(same_bits(expected, unpermuted(many, d, q, {order, true}))) << threads;
    }
  }
}

TEST(ExpertRows, GradientsMatchTheReference) {
  for (const ExpertShape& s : kExpertShapes) {
    RowData d(s);
    d.rows = random_floats(s.slots() * s.width, 10);
    OpsOn on(2);
    Plan p;
    plan(on, s, d.experts, {}, p, 5);
    Floats dy = random_floats(s.rows() * s.width, 11);
    Floats drows(d.rows.size());
    Floats dweights(d.weights.size(), 3.0f);
    on->unpermute_rows_backward({.drows = tensor(drows, {s.slots(), s.width}),
                                 .dweights = tensor(dweights, {s.rows(), s.choices}),
                                 .dy = tensor(dy, {s.rows(), s.width}),
                                 .rows = tensor(d.rows, {s.slots(), s.width}),
                                 .weights = tensor(d.weights, {s.rows(), s.choices}),
                                 .plan = p.view});
    Doubles expected_rows(drows.size());
    Doubles expected_weights(dweights.size());
    const auto width = static_cast<size_t>(s.width);
    for (size_t i = 0; i < p.slots.size(); ++i) {
      for (size_t c = 0; p.slots[i] >= 0 && c < width; ++c) {
        const auto g = static_cast<double>(dy[i / static_cast<size_t>(s.choices) * width + c]);
        const size_t at = static_cast<size_t>(p.slots[i]) * width + c;
        expected_rows[at] = g * static_cast<double>(d.weights[i]);
        expected_weights[i] += g * static_cast<double>(d.rows[at]);
      }
    }
    expect_close(drows, expected_rows, 1e-6, "drows");
    expect_close(dweights, expected_weights, 1e-5, "dweights");
  }
}

}  // namespace
}  // namespace dettax::test
