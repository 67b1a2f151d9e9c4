#include <numeric>

#include "tests/device/expert_fixture.h"

namespace dettax::test {
namespace {

struct Routed {
  Floats probabilities, weights;
  Ints experts;
};

Routed route(const ExpertShape& s, Floats logits, bool balanced = false, bool normalised = true) {
  OpsOn on(2);
  Routed r{Floats(logits.size()), Floats(static_cast<size_t>(s.slots())),
           Ints(static_cast<size_t>(s.slots()))};
  on->route_tokens({.probabilities = tensor(r.probabilities, {s.rows(), s.experts}),
                    .experts = tensor(r.experts, s.rows(), s.choices),
                    .weights = tensor(r.weights, {s.rows(), s.choices}),
                    .logits = tensor(logits, {s.rows(), s.experts}),
                    .samples = s.samples,
                    .balanced = balanced,
                    .normalised = normalised});
  return r;
}

Doubles softmax(const Doubles& logits, int64_t experts) {
  Doubles p(logits.size());
  for (size_t row = 0; row < p.size(); row += static_cast<size_t>(experts)) {
    double total = 0;
    for (size_t e = row; e < row + static_cast<size_t>(experts); ++e) {
      total += p[e] = std::exp(logits[e]);
    }
    for (size_t e = row; e < row + static_cast<size_t>(experts); ++e) p[e] /= total;
  }
  return p;
}

Doubles weights_of(const Doubles& p, const ExpertShape& s, const Ints& experts, bool normalised) {
  Doubles w(experts.size());
  for (size_t t = 0; t < static_cast<size_t>(s.rows()); ++t) {
    double total = 0;
    for (size_t k = 0; k < static_cast<size_t>(s.choices); ++k) {
      const size_t i = t * static_cast<size_t>(s.choices) + k;
      total += w[i] = p[t * static_cast<size_t>(s.experts) + static_cast<size_t>(experts[i])];
    }
    for (size_t k = 0; normalised && k < static_cast<size_t>(s.choices); ++k) {
      w[t * static_cast<size_t>(s.choices) + k] /= total;
    }
  }
  return w;
}

TEST(Routing, TheMostProbableExpertsAreChosenInFallingOrder) {
  for (const ExpertShape& s : kExpertShapes) {
    const Floats logits = random_floats(s.rows() * s.experts, 1, 3);
    const Routed r = route(s, logits);
    for (int64_t t = 0; t < s.rows(); ++t) {
      std::vector<int32_t> order(static_cast<size_t>(s.experts));
      std::iota(order.begin(), order.end(), 0);
      const auto logit = [&](int32_t e) { return logits[static_cast<size_t>(t * s.experts + e)]; };
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
      for (int64_t k = 0; k < s.choices; ++k) {
        ASSERT_EQ(r.experts[static_cast<size_t>(t * s.choices + k)], order[static_cast<size_t>(k)]);
      }
    }
  }
}

TEST(Routing, EqualProbabilitiesGoToTheLowerIndexAndNansStillChooseDifferentExperts) {
  const ExpertShape s{1, 3, 1, 4, 2};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routed r = route(s, {1, 2, 2, 2, 5, 5, 5, 5, nan, nan, nan, nan});
  EXPECT_EQ(r.experts, (Ints{1, 2, 0, 1, 0, 1}));
}

TEST(Routing, WeightsAreTheProbabilitiesNormalisedOrNot) {
  for (const ExpertShape& s : kExpertShapes) {
    const Floats logits = random_floats(s.rows() * s.experts, 2, 3);
    const Doubles p = softmax(to_doubles(logits), s.experts);
    for (const bool normalised : {false, true}) {
      const Routed r = route(s, logits, false, normalised);
      expect_close(r.probabilities, p, 1e-6, "probabilities");
      expect_close(r.weights, weights_of(p, s, r.experts, normalised), 1e-6, "weights");
    }
  }
}

TEST(Routing, BalancedChoicesDependOnThePlaceInTheSampleAlone) {
  const ExpertShape s{2, 8, 1, 4, 2};
  const Routed r = route(s, random_floats(s.rows() * s.experts, 3), true);
  const Routed other = route(s, random_floats(s.rows() * s.experts, 4), true);
  EXPECT_EQ(r.experts, other.experts);
  EXPECT_FALSE(same_bits(r.weights, other.weights));
  EXPECT_TRUE(std::equal(r.experts.begin(), r.experts.begin() + 16, r.experts.begin() + 16));
  for (int32_t e = 0; e < 4; ++e) EXPECT_EQ(std::count(r.experts.begin(), r.experts.end(), e), 8);
}

// f_e of each sample and expert.
Doubles loads_of(const ExpertShape& s, const Ints& counts) {
  Doubles f(counts.size());
  const double even = static_cast<double>(s.tokens * s.choices) / static_cast<double>(s.experts);
  for (size_t i = 0; i < f.size(); ++i) f[i] = counts[i] / even;
  return f;
}

double load_at(const ExpertShape& s, const Doubles& loads, size_t index) {
  const auto experts = static_cast<size_t>(s.experts);
  return loads[index / experts / static_cast<size_t>(s.tokens) * experts + index % experts];
}

TEST(Routing, TheMeanBalanceLossOfASampleIsLoadTimesMeanProbability) {
  for (const ExpertShape& s : kExpertShapes) {
    OpsOn on(2);
    Routed r = route(s, random_floats(s.rows() * s.experts, 5, 2));
    Plan p;
    plan(on, s, r.experts, {}, p);
    Floats losses = random_floats(s.rows(), 6);
    Doubles expected = to_doubles(losses);
    const Doubles loads = loads_of(s, p.counts);
    for (size_t i = 0; i < r.probabilities.size(); ++i) {
      expected[i / static_cast<size_t>(s.experts)] +=
          0.25 * load_at(s, loads, i) * static_cast<double>(r.probabilities[i]);
    }
    on->balance_loss({.losses = tensor(losses),
                      .probabilities = tensor(r.probabilities, {s.rows(), s.experts}),
                      .counts = p.view.counts,
                      .choices = s.choices,
                      .scale = 0.25});
    expect_close(losses, expected, 1e-6, "losses");
  }
}

TEST(Routing, AnEvenLoadHasABalanceLossOfOne) {
  const ExpertShape s{2, 8, 1, 4, 2};
  OpsOn on(1);
  Routed r = route(s, random_floats(s.rows() * s.experts, 7), true);
  Plan p;
  plan(on, s, r.experts, {}, p);
  Floats losses(static_cast<size_t>(s.rows()));
  on->balance_loss({tensor(losses), tensor(r.probabilities, {s.rows(), s.experts}), p.view.counts,
                    s.choices, 1.0});
  for (const float loss : losses) EXPECT_NEAR(static_cast<double>(loss), 1.0, 1e-6);
}

void expect_gradient(const ExpertShape& s, bool normalised) {
  OpsOn on(2);
  Floats logits = random_floats(s.rows() * s.experts, 8, 2);
  Routed r = route(s, logits, false, normalised);
  Plan p;
  plan(on, s, r.experts, {}, p);
  Floats dweights = random_floats(s.slots(), 9);
  Floats dlogits(logits.size());
  const double balance_scale = 0.3;
  on->route_tokens_backward({.dlogits = tensor(dlogits, {s.rows(), s.experts}),
                             .dweights = tensor(dweights, {s.rows(), s.choices}),
                             .probabilities = tensor(r.probabilities, {s.rows(), s.experts}),
                             .experts = tensor(r.experts, s.rows(), s.choices),
                             .weights = tensor(r.weights, {s.rows(), s.choices}),
                             .counts = p.view.counts,
                             .normalised = normalised,
                             .balance_scale = balance_scale});
  Doubles x = to_doubles(logits);
  const Doubles loads = loads_of(s, p.counts);
  const auto loss = [&] {
    const Doubles probabilities = softmax(x, s.experts);
    double total = dot(to_doubles(dweights), weights_of(probabilities, s, r.experts, normalised));
    for (size_t i = 0; i < x.size(); ++i) {
      total += balance_scale * load_at(s, loads, i) * probabilities[i];
    }
    return total;
  };
  Doubles expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = slope(loss, x, i);
  expect_close(dlogits, expected, 1e-4, "dlogits");
}

TEST(Routing, GradientsMatchSlopesOfTheReference) {
  for (const ExpertShape& s : {ExpertShape{1, 1, 1, 3, 1}, {2, 5, 1, 6, 2}, {1, 8, 1, 21, 4}}) {
    expect_gradient(s, true);
    expect_gradient(s, false);
  }
}

}  // namespace
}  // namespace dettax::test
