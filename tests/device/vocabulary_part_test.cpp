// Operations on a part of the vocabulary: parts put together give what the whole gives.

#include <gtest/gtest.h>

#include "tests/device/op_fixture.h"

namespace dettax::test {
namespace {

constexpr int64_t kRows = 9;
constexpr int64_t kWidth = 40;  // columns of a part
constexpr double kScale = 1.0 / 7;

struct Loss {
  Floats losses, gradients;
};

Loss whole(OpsOn& on, Floats logits, Ints targets, int64_t vocabulary, bool generic) {
  Loss loss{Floats(static_cast<size_t>(kRows)), std::move(logits)};
  const auto columns = static_cast<int64_t>(loss.gradients.size()) / kRows;
  on->cross_entropy({.losses = tensor(loss.losses),
                     .logits = tensor(loss.gradients, {kRows, columns}),
                     .targets = tensor(targets),
                     .vocabulary = vocabulary,
                     .gradient_scale = kScale,
                     .generic = generic});
  return loss;
}

// What a rank of `parts` does, all in one place: sums are added in the order of parts.
Loss in_parts(OpsOn& on, const Floats& logits, Ints targets, int64_t vocabulary, int64_t parts,
              bool generic) {
  const auto rows = static_cast<size_t>(kRows);
  std::vector<Floats> shards(static_cast<size_t>(parts), Floats(rows * kWidth));
  const auto real = [&](int64_t part) {
    return std::clamp<int64_t>(vocabulary - part * kWidth, 0, kWidth);
  };
  Floats maxima(rows * static_cast<size_t>(parts));
  for (int64_t p = 0; p < parts; ++p) {
    Floats& shard = shards[static_cast<size_t>(p)];
    for (int64_t r = 0; r < kRows; ++r) {
      std::copy_n(logits.begin() + (r * parts + p) * kWidth, kWidth, shard.begin() + r * kWidth);
    }
    on->cross_entropy_maxima({make_tensor(maxima.data() + p * kRows, DType::f32, {kRows}),
                              tensor(shard, {kRows, kWidth}), real(p)});
  }
  Floats sums(2 * rows);
  for (int64_t p = 0; p < parts; ++p) {
    Floats own(2 * rows);
    on->cross_entropy_sums({tensor(own), tensor(shards[static_cast<size_t>(p)], {kRows, kWidth}),
                            tensor(maxima, {parts, kRows}), tensor(targets), p * kWidth, real(p),
                            generic});
    for (size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  Loss loss{Floats(rows), Floats(logits.size())};
  for (int64_t p = 0; p < parts; ++p) {
    Floats& shard = shards[static_cast<size_t>(p)];
    on->cross_entropy_from_sums({tensor(loss.losses), tensor(shard, {kRows, kWidth}), tensor(sums),
                                 tensor(targets), p * kWidth, real(p), kScale, generic});
    for (int64_t r = 0; r < kRows; ++r) {
      std::copy_n(shard.begin() + r * kWidth, kWidth,
                  loss.gradients.begin() + (r * parts + p) * kWidth);
    }
  }
  return loss;
}

TEST(CrossEntropyInParts, IsThatOfTheWholeVocabulary) {
  OpsOn on(2);
  for (const int64_t parts : {1, 2, 3, 5}) {
    for (const int64_t vocabulary : {parts * kWidth, parts * kWidth - 3, int64_t{17}}) {
      for (const bool generic : {false, true}) {
        const Floats logits = random_floats(kRows * parts * kWidth, 1, 30);
        const Ints targets = random_ints(kRows, 2, static_cast<int32_t>(vocabulary));
        const Loss expected = whole(on, logits, targets, vocabulary, generic);
        const Loss found = in_parts(on, logits, targets, vocabulary, parts, generic);
        expect_close(found.losses, to_doubles(expected.losses), 2e-6, "losses");
        expect_close(found.gradients, to_doubles(expected.gradients), 2e-6, "gradients");
      }
    }
  }
}

TEST(CrossEntropyInParts, NotANumberReachesTheLoss) {
  OpsOn on(1);
  Floats logits = random_floats(kRows * 2 * kWidth, 1);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  const Loss found = in_parts(on, logits, random_ints(kRows, 2, 2 * kWidth), 2 * kWidth, 2, false);
  EXPECT_TRUE(std::isnan(found.losses[0]));
  EXPECT_FALSE(std::isnan(found.losses[1]));
}

constexpr int64_t kTokens = 20;

TEST(EmbeddingInParts, RowsOfOtherRanksAreZerosBeforePositions) {
  OpsOn on(2);
  const Ints ids = random_ints(kTokens, 3, 30);
  Floats table = random_floats(30 * 17, 4);
  Floats positions = random_floats(kTokens * 17, 5);
  Floats all(kTokens * 17);
  Ints tokens = ids;
  on->embedding_forward({tensor(all, {kTokens, 17}),
                         tensor(tokens),
                         tensor(table, {30, 17}),
                         tensor(positions, {kTokens, 17}),
                         1,
                         {}});
  Floats sum(all.size());
  for (const int64_t part : {0, 1, 2}) {
    Floats y(all.size());
    Floats shard(table.begin() + part * 170, table.begin() + (part + 1) * 170);
    on->embedding_forward({tensor(y, {kTokens, 17}),
                           tensor(tokens),
                           tensor(shard, {10, 17}),
                           part == 0 ? tensor(positions, {kTokens, 17}) : Tensor{},
                           1,
                           {10 * part, true}});
    for (size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
  }
  expect_close(sum, to_doubles(all), 1e-6, "rows");
}

TEST(EmbeddingInParts, GradientsAreThePartsOfTheWhole) {
  OpsOn on(2);
  Ints tokens = random_ints(kTokens, 3, 30);
  for (size_t i = 0; i < tokens.size(); i += 2) tokens[i] %= 4;
  Floats dy = cancelling_floats(kTokens * 17, 6);
  for (const Order order : {Order::arrival, Order::ordered, Order::invariant}) {
    for (const bool generic : {false, true}) {
      const auto backward = [&](int64_t first, int64_t count, bool partial) {
        Floats table(static_cast<size_t>(count * 17));
        on->embedding_backward({tensor(table, {count, 17}),
                                {},
                                tensor(dy, {kTokens, 17}),
                                tensor(tokens),
                                2,
                                {order},
                                generic,
                                {first, partial}});
        return table;
      };
      const Floats all = backward(0, 30, false);
      Floats joined;
      for (const int64_t first : {0, 10, 20}) {
        const Floats part = backward(first, 10, true);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      expect_close(joined, to_doubles(all), 1e-6, "dtable");
      EXPECT_TRUE(order == Order::arrival || same_bits(joined, all));
      // A part without any token of the batch.
      EXPECT_EQ(backward(100, 10, true), Floats(170));
      EXPECT_THROW(backward(0, 3, false), Error);
    }
  }
}

TEST(AddBiasResidual, AddsWhatIsGiven) {
  OpsOn on(2);
  for (const int64_t width : {1, 33, 64}) {
    Floats bias = random_floats(width, 1);
    Floats residual = random_floats(700 * width, 2);
    for (const bool with_bias : {false, true}) {
      for (const bool with_residual : {false, true}) {
        Floats y = random_floats(700 * width, 3);
        Floats expected = y;
        for (size_t i = 0; i < y.size(); ++i) {
          if (with_bias) expected[i] += bias[i % static_cast<size_t>(width)];
          if (with_residual) expected[i] += residual[i];
        }
        on->add_bias_residual({tensor(y, {700, width}), with_bias ? tensor(bias) : Tensor{},
                               with_residual ? tensor(residual, {700, width}) : Tensor{}});
        EXPECT_TRUE(same_bits(y, expected));
      }
    }
  }
}

}  // namespace
}  // namespace dettax::test
