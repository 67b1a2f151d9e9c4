#include "harness/train/precision.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/train/loss_scale.h"
#include "small_cases.h"

namespace dettax {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace)

const std::vector<Precision> kNarrow{Precision::tf32,   Precision::bf16,   Precision::fp16,
                                     Precision::fp8_cs, Precision::fp8_ds, Precision::fp8_mx,
                                     Precision::nvfp4};

Case case_in(Precision precision, const Model& model = small_llama()) {
  Case planned = small_case(model);
  planned.precision = precision;
  return planned;
}

// After reset and `steps` steps of one rank.
struct Outcome {
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> weights, gradients;
};
Outcome train(const Case& planned, int steps) {
  Outcome outcome;
  train_on_ranks(planned, deterministic(), [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(rank.train.step().loss);
    if (rank.communicator.rank() != 0) return;
    outcome.losses = losses;
    for (const auto& p : rank.train.parameters()) {
      outcome.weights[p.name].assign(p.value.f32(), p.value.f32() + p.value.count());
      outcome.gradients[p.name].assign(p.gradient.f32(), p.gradient.f32() + p.gradient.count());
    }
  });
  return outcome;
}

double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    whole += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / whole);
}

// Distance of the gradients from those of fp32 that a precision may have: a few units of its operands' rounding.
double gradient_tolerance(Precision precision) {
  switch (precision) {
    case Precision::tf32:
    case Precision::fp16:
      return 0.01;
    case Precision::bf16:
      return 0.06;
    case Precision::nvfp4:
      return 0.8;
    default:
      return 0.4;
  }
}

TEST(Precision, GradientsAreThoseOfFp32WithinTheRounding) {
  for (const Model& model : {small_gpt(), small_llama()}) {
    const Outcome exact = train(case_in(Precision::fp32, model), 1);
    for (const Precision precision : kNarrow) {
      const Outcome rounded = train(case_in(precision, model), 1);
      EXPECT_NEAR(rounded.losses[0] / exact.losses[0], 1, 0.01) << to_string(precision);
      // The scale of fp16 is taken away when weights change: its gradients are still scaled.
      const float scale = precision == Precision::fp16 ? 65536.0F : 1.0F;
      for (auto gradient : rounded.gradients) {
        for (float& g : gradient.second) g /= scale;
        const double distance =
            relative_distance(gradient.second, exact.gradients.at(gradient.first));
        EXPECT_LT(distance, gradient_tolerance(precision))
            << to_string(precision) << " " << gradient.first;
        EXPECT_GT(distance, 0) << to_string(precision) << " rounds nothing";
      }
    }
  }
}

TEST(Precision, WhatIsCoarserIsFurtherFromFp32) {
  const Outcome exact = train(case_in(Precision::fp32), 1);
  const auto distance = [&](Precision precision) {
    return relative_distance(train(case_in(precision), 1).gradients.at("layer0.mlp.up.weight"),
                             exact.gradients.at("layer0.mlp.up.weight"));
  };
  const double bf16 = distance(Precision::bf16);
  const double fp8 = distance(Precision::fp8_mx);
  EXPECT_LT(distance(Precision::tf32), bf16);
  EXPECT_LT(bf16, fp8);
  EXPECT_LT(fp8, distance(Precision::nvfp4));
}

TEST(Precision, TheLossFallsInEveryPrecision) {
  for (const Precision precision : kNarrow) {
    Case planned = case_in(precision);
    planned.optimizer.learning_rate = 3e-3;
    const Outcome outcome = train(planned, 25);
    EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.1F) << to_string(precision);
  }
}

// Checks that what ops hand on are numbers of the format.
class OnTheGrid : public StepObserver {
 public:
  explicit OnTheGrid(NumberFormat format) : format_(format) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t) override {
    static const std::set<std::string_view> kActivations{"y", "qkv", "out", "dx", "dqkv", "logits"};
    if (!kActivations.contains(name)) return;
    ++seen_;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (round_to(format_, tensor.f32()[i]) == tensor.f32()[i]) continue;
      outside_.insert(std::string(path));
      return;
    }
  }
  int seen() const { return seen_; }
  const std::set<std::string>& outside() const { return outside_; }

 private:
  const NumberFormat format_;
  int seen_ = 0;
  std::set<std::string> outside_;
};

TEST(Precision, WhatOpsHandOnAreNumbersOfTheFormat) {
  for (const auto& [precision, format] : {std::pair{Precision::bf16, NumberFormat::bf16},
                                          {Precision::fp16, NumberFormat::f16},
                                          {Precision::fp8_mx, NumberFormat::bf16}}) {
    for (const Model& model : {small_gpt(), small_llama()}) {
      train_on_ranks(case_in(precision, model), deterministic(), [format = format](RankRun& rank) {
        OnTheGrid grid(format);
        rank.train.reset(1);
        rank.train.observe(&grid);
        rank.train.step();
        EXPECT_GT(grid.seen(), 20);
        EXPECT_TRUE(grid.outside().empty()) << *grid.outside().begin();
      });
    }
  }
}

TEST(Precision, TheCheckOfTheGridCanFail) {
  train_on_ranks(case_in(Precision::tf32), deterministic(), [](RankRun& rank) {
    OnTheGrid grid(NumberFormat::bf16);
    rank.train.reset(1);
    rank.train.observe(&grid);
    rank.train.step();
    EXPECT_FALSE(grid.outside().empty());
  });
}

TEST(Precision, EveryPrecisionRepeatsItsBits) {
  for (const Precision precision : kNarrow) {
    Case planned = case_in(precision);
    planned.batch.micro = 2;
    EXPECT_EQ(
        first_difference(record(planned, deterministic(), 3), record(planned, deterministic(), 3)),
        "")
        << to_string(precision);
    Case other = planned;
    other.seed = planned.seed + 1;
    EXPECT_NE(
        first_difference(record(planned, deterministic(), 1), record(other, deterministic(), 1)),
        "");
  }
}

TEST(Precision, InvariantBitsHoldInBf16OverMicroBatchesAndRanks) {
  Case one = case_in(Precision::bf16);
  Case two = one;
  two.layout.dp = 2;
  two.batch.micro = 1;
  const Log whole = layout_free(record(one, invariant(), 2));
  EXPECT_EQ(first_difference(whole, layout_free(record(two, invariant(), 2))), "");
  two.precision = Precision::tf32;
  EXPECT_NE(first_difference(whole, layout_free(record(two, invariant(), 2))), "");
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterManyGoodSteps) {
  LossScale scale(true);
  const double first = scale.value();
  EXPECT_FALSE(scale.accept(false));
  EXPECT_EQ(scale.value(), first / 2);
  for (int i = 0; i < 1999; ++i) EXPECT_TRUE(scale.accept(true));
  EXPECT_EQ(scale.value(), first / 2);
  EXPECT_TRUE(scale.accept(true));
  EXPECT_EQ(scale.value(), first);
  scale.reset();
  EXPECT_EQ(scale.good_steps(), 0);
}

TEST(LossScale, IsOneWhereNothingIsScaled) {
  LossScale scale(false);
  EXPECT_EQ(scale.value(), 1.0);
  EXPECT_TRUE(scale.accept(false));
  EXPECT_EQ(scale.value(), 1.0);
}

TEST(LossScale, AnOverflowingStepChangesNoWeight) {
  Case planned = case_in(Precision::fp16);
  train_on_ranks(planned, deterministic(), [](RankRun& rank) {
    rank.train.reset(1);
    // Large enough for gradients, not for the forward pass, to leave the range of f16.
    const auto& head = rank.train.parameters().back();
    ASSERT_EQ(head.name, "head.weight");
    for (int64_t i = 0; i < head.value.count(); ++i) head.value.f32()[i] *= 3000;
    const std::vector<float> before(head.value.f32(), head.value.f32() + head.value.count());
    std::map<std::string, Fingerprint> state;
    const auto look = [&](std::string_view name, const Fingerprint& f) {
      state[std::string(name)] = f;
    };
    rank.train.fingerprint(look);
    const auto old_scale = state.at("loss_scale");
    const StepResult result = rank.train.step();
    EXPECT_TRUE(result.finite);
    EXPECT_EQ(before, std::vector<float>(head.value.f32(), head.value.f32() + head.value.count()));
    rank.train.fingerprint(look);
    EXPECT_NE(state.at("loss_scale"), old_scale);
  });
}

TEST(DelayedScales, TheHistoryIsStateThatAStepChanges) {
  train_on_ranks(case_in(Precision::fp8_ds), deterministic(), [](RankRun& rank) {
    const auto history = [&] {
      Fingerprint found;
      rank.train.fingerprint([&](std::string_view name, const Fingerprint& f) {
        if (name == "operands.history") found = f;
      });
      return found;
    };
    rank.train.reset(1);
    const Fingerprint first = history();
    rank.train.step();
    const Fingerprint second = history();
    EXPECT_FALSE(first == second);
    rank.train.reset(1);
    EXPECT_TRUE(history() == first);
    rank.train.step();
    EXPECT_TRUE(history() == second);
  });
}

}  // namespace
}  // namespace dettax
