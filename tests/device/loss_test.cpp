#include <limits>

#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

struct Loss {
  Floats losses, logits;
};

Loss cross_entropy(OpsOn& on, Floats logits, int64_t width, Ints targets, int64_t vocabulary,
                   double scale, bool generic) {
  Loss result{Floats(targets.size()), std::move(logits)};
  on->cross_entropy({.losses = tensor(result.losses),
                     .logits = tensor(result.logits, {static_cast<int64_t>(targets.size()), width}),
                     .targets = tensor(targets),
                     .vocabulary = vocabulary,
                     .gradient_scale = scale,
                     .generic = generic});
  return result;
}

double reference_loss(const Doubles& logits, size_t target, size_t vocabulary) {
  double total = 0;
  const double largest =
      *std::max_element(logits.begin(), logits.begin() + static_cast<int64_t>(vocabulary));
  for (size_t v = 0; v < vocabulary; ++v) total += std::exp(logits[v] - largest);
  return largest + std::log(total) - logits[target];
}

void expect_matches_reference(int64_t rows, int64_t width, int64_t vocabulary, double amplitude,
                              bool generic) {
  OpsOn on(2);
  const Floats logits = random_floats(rows * width, 1, amplitude);
  const Ints targets = random_ints(rows, 2, static_cast<int32_t>(vocabulary));
  const double scale = 1.0 / 7;
  const Loss actual = cross_entropy(on, logits, width, targets, vocabulary, scale, generic);
  Doubles losses;
  Doubles gradients;
  for (int64_t r = 0; r < rows; ++r) {
    const Doubles row(logits.begin() + r * width, logits.begin() + (r + 1) * width);
    const auto target = static_cast<size_t>(targets[static_cast<size_t>(r)]);
    losses.push_back(reference_loss(row, target, static_cast<size_t>(vocabulary)));
    const double log_sum_exp = losses.back() + row[target];
    for (size_t v = 0; v < row.size(); ++v) {
      const bool padding = v >= static_cast<size_t>(vocabulary);
      const double one_hot = v == target ? 1 : 0;
      gradients.push_back(padding ? 0 : scale * (std::exp(row[v] - log_sum_exp) - one_hot));
    }
  }
  expect_close(actual.losses, losses, 2e-6, "losses");
  expect_close(actual.logits, gradients, 2e-6, "gradients");
}

TEST(CrossEntropy, MatchesTheReferenceWithAndWithoutPadding) {
  for (const bool generic : {false, true}) {
    expect_matches_reference(1, 1, 1, 1, generic);
    expect_matches_reference(3, 5, 5, 1, generic);
    expect_matches_reference(7, 128, 100, 4, generic);
    expect_matches_reference(9, 1000, 999, 60, generic);
    expect_matches_reference(2, 50304, 50257, 8, generic);
  }
}

TEST(CrossEntropy, GradientMatchesDifferencesOfTheReference) {
  OpsOn on(1);
  const Floats logits = random_floats(20, 3, 2);
  const Loss actual = cross_entropy(on, logits, 20, {4}, 17, 1.0, false);
  Doubles row = to_doubles(logits);
  for (size_t v = 0; v < row.size(); ++v) {
    const double expected = slope([&] { return reference_loss(row, 4, 17); }, row, v);
    EXPECT_NEAR(static_cast<double>(actual.logits[v]), expected, 1e-6);
  }
}

TEST(CrossEntropy, NotANumberAndInfinityReachTheLoss) {
  OpsOn on(1);
  for (const bool generic : {false, true}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {size_t{0}, size_t{63}, size_t{99}}) {
        Floats logits = random_floats(100, 3);
        logits[at] = bad;
        EXPECT_TRUE(std::isnan(cross_entropy(on, logits, 100, {5}, 100, 1, generic).losses[0]));
      }
    }
  }
}

TEST(CrossEntropy, TargetOutsideTheVocabularyIsAnError) {
  OpsOn on(2);
  EXPECT_THROW(cross_entropy(on, Floats(40), 20, {3, 17}, 17, 1.0, false), Error);
  EXPECT_THROW(cross_entropy(on, Floats(40), 20, {-1, 3}, 17, 1.0, false), Error);
}

TEST(CrossEntropy, RowsDoNotDependOnThreadsOrBatch) {
  OpsOn one(1);
  OpsOn three(3);
  const Floats logits = random_floats(10 * 300, 4, 5);
  const Ints targets = random_ints(10, 5, 300);
  const Loss a = cross_entropy(one, logits, 300, targets, 300, 0.5, false);
  const Loss b = cross_entropy(three, logits, 300, targets, 300, 0.5, false);
  EXPECT_TRUE(same_bits(a.losses, b.losses));
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  const Loss row = cross_entropy(one, {logits.begin() + 900, logits.begin() + 1200}, 300,
                                 {targets[3]}, 300, 0.5, false);
  EXPECT_EQ(row.losses[0], a.losses[3]);
}

float sum_scalar(OpsOn& on, Floats values, double scale, int64_t samples, SumOrder sum) {
  Floats result{99};
  on->sum_scalar({.result = tensor(result),
                  .values = tensor(values),
                  .scale = scale,
                  .samples = samples,
                  .sum = sum});
  return result[0];
}

float sum_of_squares(OpsOn& on, Floats values, SumOrder sum, const float* old = nullptr) {
  Floats result{old == nullptr ? 99 : *old};
  on->sum_of_squares({.result = tensor(result),
                      .values = tensor(values),
                      .accumulate = old != nullptr,
                      .sum = sum});
  return result[0];
}

TEST(Sums, EveryVariantMatchesTheReference) {
  OpsOn on(3);
  for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
    for (const bool dynamic : {false, true}) {
      for (const int64_t count : {1, 15, 16, 1000, 4096}) {
        const Floats values = random_floats(count, 6, 1, 3);
        double total = 0;
        for (const float v : values) total += static_cast<double>(v) / 7;
        EXPECT_NEAR(static_cast<double>(sum_scalar(on, values, 1.0 / 7, 1, {order, dynamic})),
                    total, 1e-4 * total);
      }
      for (const int64_t count : {1, 17, 16384, 100001}) {
        const Floats values = random_floats(count, 7);
        double total = 0;
        for (const float v : values) total += static_cast<double>(v) * static_cast<double>(v);
        EXPECT_NEAR(static_cast<double>(sum_of_squares(on, values, {order, dynamic})), total,
                    1e-5 * total);
        const float old = 5;
        EXPECT_NEAR(static_cast<double>(sum_of_squares(on, values, {order, dynamic}, &old)),
                    total + 5, 1e-5 * (total + 5));
      }
    }
  }
}

TEST(Sums, InvariantDoesNotDependOnThreadsOrMicroBatch) {
  const Floats losses = cancelling_floats(8 * 100, 8);
  const Floats gradient = cancelling_floats(300000, 9);
  OpsOn one(1);
  const float loss = sum_scalar(one, losses, 0.3, 8, {Order::invariant});
  const float squares = sum_of_squares(one, gradient, {Order::invariant});
  for (const int threads : {1, 2, 3}) {
    OpsOn on(threads);
    EXPECT_EQ(sum_scalar(on, losses, 0.3, 8, {Order::invariant, true}), loss);
    EXPECT_EQ(sum_of_squares(on, gradient, {Order::invariant, true}), squares);
    const float low =
        sum_scalar(on, {losses.begin(), losses.begin() + 400}, 0.3, 4, {Order::invariant});
    const float high =
        sum_scalar(on, {losses.begin() + 400, losses.end()}, 0.3, 4, {Order::invariant});
    EXPECT_EQ(low + high, loss);
  }
}

TEST(Sums, OrderedDependsOnThreads) {
  const Floats losses = cancelling_floats(8 * 100, 8);
  const Floats gradient = cancelling_floats(3000000, 9);
  OpsOn one(1);
  OpsOn three(3);
  EXPECT_NE(sum_scalar(one, losses, 0.3, 8, {Order::ordered}),
            sum_scalar(three, losses, 0.3, 8, {Order::ordered}));
  EXPECT_NE(sum_of_squares(one, gradient, {Order::ordered}),
            sum_of_squares(three, gradient, {Order::ordered}));
}

TEST(Sums, OnlyArrivalDiffersFromRunToRun) {
  OpsOn on(2);
  const Floats losses = cancelling_floats(1 << 17, 10);
  const Floats gradient = cancelling_floats(1 << 22, 11);
  for (const bool dynamic : {false, true}) {
    expect_only_arrival_differs([&](Order order) {
      return Floats{
          sum_scalar(on, losses, 1, 8, {order, order == Order::ordered ? false : dynamic})};
    });
    expect_only_arrival_differs([&](Order order) {
      return Floats{
          sum_of_squares(on, gradient, {order, order == Order::ordered ? false : dynamic})};
    });
  }
}

struct Head {
  int64_t samples, tokens, width, vocabulary, padded;
  int64_t rows() const { return samples * tokens; }
};

struct HeadResult {
  Floats losses, dx, dw;
};

HeadResult fused(OpsOn& on, const Head& h, SumOrder sum, bool generic, const Floats& old_dw) {
  Floats x = random_floats(h.rows() * h.width, 20);
  Floats w = random_floats(h.padded * h.width, 21);
  Ints targets = random_ints(h.rows(), 22, static_cast<int32_t>(h.vocabulary));
  HeadResult result{Floats(static_cast<size_t>(h.rows())), Floats(x.size(), 9.0f), old_dw};
  Floats logits(static_cast<size_t>(
      fused_loss_chunk_rows(h.rows(), h.padded, h.samples, sum.order) * h.padded));
  on->fused_linear_cross_entropy({.losses = tensor(result.losses),
                                  .dx = tensor(result.dx, {h.rows(), h.width}),
                                  .dw = tensor(result.dw, {h.padded, h.width}),
                                  .x = tensor(x, {h.rows(), h.width}),
                                  .w = tensor(w, {h.padded, h.width}),
                                  .targets = tensor(targets),
                                  .logits = tensor(logits),
                                  .vocabulary = h.vocabulary,
                                  .gradient_scale = 0.25,
                                  .accumulate = true,
                                  .samples = h.samples,
                                  .sum = sum,
                                  .generic = generic});
  return result;
}

HeadResult separate(OpsOn& on, const Head& h, SumOrder sum, const Floats& old_dw) {
  Floats x = random_floats(h.rows() * h.width, 20);
  Floats w = random_floats(h.padded * h.width, 21);
  Ints targets = random_ints(h.rows(), 22, static_cast<int32_t>(h.vocabulary));
  HeadResult result{Floats(static_cast<size_t>(h.rows())), Floats(x.size()), old_dw};
  Floats logits(static_cast<size_t>(h.rows() * h.padded));
  LinearForward forward;
  forward.y = tensor(logits, {h.rows(), h.padded});
  forward.x = tensor(x, {h.rows(), h.width});
  forward.w = tensor(w, {h.padded, h.width});
  on->linear_forward(forward);
  on->cross_entropy({.losses = tensor(result.losses),
                     .logits = forward.y,
                     .targets = tensor(targets),
                     .vocabulary = h.vocabulary,
                     .gradient_scale = 0.25});
  LinearBackwardInput input;
  input.dx = tensor(result.dx, {h.rows(), h.width});
  input.dy = forward.y;
  input.w = forward.w;
  on->linear_backward_input(input);
  LinearBackwardWeight weight;
  weight.dw = tensor(result.dw, {h.padded, h.width});
  weight.dy = forward.y;
  weight.x = forward.x;
  weight.samples = h.samples;
  weight.sum = sum;
  on->linear_backward_weight(weight);
  return result;
}

TEST(FusedCrossEntropy, GivesWhatHeadAndLossGiveOneAfterTheOther) {
  OpsOn on(2);
  // The second has several chunks: 600 rows in chunks of at least 256.
  for (const Head& h : {Head{2, 5, 24, 90, 96}, Head{4, 150, 8, 33000, 33024}}) {
    const Floats old_dw = random_floats(h.padded * h.width, 23, 0.1);
    for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
      const HeadResult b = separate(on, h, {order}, old_dw);
      for (const bool generic : {false, true}) {
        const HeadResult a = fused(on, h, {order}, generic, old_dw);
        expect_close(a.losses, to_doubles(b.losses), 2e-6, "losses");
        expect_close(a.dx, to_doubles(b.dx), 1e-5, "dx");
        expect_close(a.dw, to_doubles(b.dw), 1e-5, "dw");
      }
    }
  }
}

TEST(FusedCrossEntropy, InvariantHasTheBitsOfTheSeparateOperations) {
  OpsOn on(2);
  OpsOn three(3);
  const Head h{4, 150, 32, 33000, 33024};
  const Floats old_dw = random_floats(h.padded * h.width, 23, 0.1);
  const HeadResult a = fused(three, h, {Order::invariant, true}, false, old_dw);
  const HeadResult b = separate(on, h, {Order::invariant}, old_dw);
  EXPECT_TRUE(same_bits(a.losses, b.losses));
  EXPECT_TRUE(same_bits(a.dx, b.dx));
  EXPECT_TRUE(same_bits(a.dw, b.dw));
}

TEST(FusedCrossEntropy, ChunksCoverTheRowsAndStaySmall) {
  for (const int64_t rows : {1, 255, 256, 257, 1024, 4096}) {
    for (const int64_t vocabulary : {1000, 8192, 50304}) {
      const int64_t chunk = fused_loss_chunk_rows(rows, vocabulary, 1, Order::ordered);
      EXPECT_GE(chunk, 1);
      EXPECT_LE(chunk, rows);
      EXPECT_TRUE(chunk <= 256 || chunk * vocabulary * 4 <= int64_t{32} << 20);
      EXPECT_EQ(fused_loss_chunk_rows(rows, vocabulary, 1, Order::invariant), rows);
    }
  }
}

}  // namespace
}  // namespace dettax::test
