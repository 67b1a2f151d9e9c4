#include "harness/measure/ablation.h"

#include <bit>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr unsigned kKnobs = 3;
constexpr unsigned kAll = (1U << kKnobs) - 1;
constexpr int kRounds = 5;

// Seconds of a step by the set of knobs, and of it what each mechanism takes.
struct Model {
  std::function<double(unsigned)> compute, exposed;
};

// Rounds drift, and one of two ranks waits for the other.
std::vector<Block> blocks_of(double seconds, int rounds = kRounds) {
  std::vector<Block> blocks;
  for (int round = 0; round < rounds; ++round) {
    for (int half = 0; half < 2; ++half) {
      Block block;
      block.round = round;
      const double drift = 0.01 * round;
      block.step_time_seconds = {{seconds + drift, seconds + drift}, {drift, drift}};
      blocks.push_back(block);
    }
  }
  return blocks;
}

AblationRuns runs_of(const Model& model, unsigned set) {
  return {blocks_of(1 + model.compute(set) + model.exposed(set)),
          {{"compute", model.compute(set) - model.compute(0)},
           {"exposed_comm.transfer", model.exposed(set) - model.exposed(0)}}};
}

Ablation matrix_of(const Model& model) {
  std::vector<ToggledKnob> knobs;
  for (unsigned i = 0; i < kKnobs; ++i)
    knobs.push_back({"knob" + std::to_string(i), "ordering", runs_of(model, 1U << i),
                     runs_of(model, kAll & ~(1U << i))});
  return ablate("deterministic", runs_of(model, 0).blocks, runs_of(model, kAll), knobs, 0.95);
}

const KnobCost& row(const Ablation& ablation, const std::string& knob) {
  for (const KnobCost& cost : ablation.knobs) {
    if (cost.knob == knob) return cost;
  }
  throw Error(ErrorKind::internal, "no row " + knob);
}

double bit(unsigned set, unsigned knob) { return (set >> knob) & 1U; }

TEST(Ablation, GivesEachKnobWhatItAddsAlone) {
  const Model model{[](unsigned s) { return 0.03 * bit(s, 0) + 0.01 * bit(s, 1); },
                    [](unsigned s) { return 0.02 * bit(s, 2); }};
  const Ablation ablation = matrix_of(model);
  EXPECT_EQ(ablation.rounds, kRounds);
  EXPECT_THAT(ablation.mechanisms, ElementsAre("compute", "exposed_comm.transfer"));
  ASSERT_THAT(ablation.knobs, SizeIs(3));
  EXPECT_EQ(ablation.knobs[0].knob, "knob0");  // largest first
  EXPECT_NEAR(row(ablation, "knob0").seconds->value, 0.03, 1e-12);
  EXPECT_NEAR(row(ablation, "knob0").cells[0], 0.03, 1e-12);
  EXPECT_NEAR(row(ablation, "knob2").cells[1], 0.02, 1e-12);
  EXPECT_NEAR(ablation.total.seconds->value, 0.06, 1e-12);
  EXPECT_NEAR(ablation.interaction.seconds->value, 0, 1e-12);
}

// The longer compute hides communication: the matrix shows both, and the two knobs share it.
TEST(Ablation, TwoKnobsShareWhatTheyDoTogether) {
  const Model model{[](unsigned s) { return 0.03 * bit(s, 0); },
                    [](unsigned s) { return 0.04 * bit(s, 1) - 0.02 * bit(s, 0) * bit(s, 1); }};
  const Ablation ablation = matrix_of(model);
  EXPECT_NEAR(row(ablation, "knob0").cells[0], 0.03, 1e-12);
  EXPECT_NEAR(row(ablation, "knob0").cells[1], -0.01, 1e-12);
  EXPECT_NEAR(row(ablation, "knob1").cells[1], 0.03, 1e-12);
  EXPECT_NEAR(row(ablation, "knob1").first_in_seconds, 0.04, 1e-12);
  EXPECT_NEAR(row(ablation, "knob1").last_in_seconds, 0.02, 1e-12);
  EXPECT_NEAR(ablation.interaction.seconds->value, 0, 1e-12);
}

TEST(Ablation, WhatThreeKnobsDoTogetherIsARowOfItsOwn) {
  const Model model{[](unsigned s) { return s == kAll ? 0.06 : 0.0; },
                    [](unsigned) { return 0.0; }};
  const Ablation ablation = matrix_of(model);
  // Each gets half of it as the last in, which is half a whole too much.
  EXPECT_NEAR(row(ablation, "knob0").seconds->value, 0.03, 1e-12);
  EXPECT_NEAR(ablation.interaction.seconds->value, -0.03, 1e-12);
  EXPECT_NEAR(ablation.total.seconds->value, 0.06, 1e-12);
}

TEST(Ablation, WhatRecordingChangedIsToldApartFromMechanisms) {
  const Model model{[](unsigned s) { return 0.03 * bit(s, 0); }, [](unsigned) { return 0.0; }};
  std::vector<ToggledKnob> knobs;
  for (unsigned i = 0; i < kKnobs; ++i)
    knobs.push_back({"knob" + std::to_string(i), "ordering", runs_of(model, 1U << i),
                     runs_of(model, kAll & ~(1U << i))});
  AblationRuns mode = runs_of(model, kAll);
  mode.mechanism_delta_seconds["compute"] += 0.005;  // recorded steps say more than others took
  const Ablation ablation = ablate("deterministic", runs_of(model, 0).blocks, mode, knobs, 0.95);
  EXPECT_NEAR(ablation.total.seconds->value, 0.03, 1e-12);
  EXPECT_NEAR(ablation.total.cells[0], 0.035, 1e-12);
  EXPECT_NEAR(ablation.total.recording_seconds, -0.005, 1e-12);
}

std::vector<Block> uneven_blocks(double seconds, unsigned salt) {
  std::vector<Block> blocks = blocks_of(seconds);
  for (size_t i = 0; i < blocks.size(); ++i)
    for (double& time : blocks[i].step_time_seconds[0])
      time += 1e-4 * static_cast<double>((i * (3 + salt)) % 11);
  return blocks;
}

TEST(Ablation, CostsThatAreNotToldFromNoneAreNamed) {
  const auto runs = [](double seconds, unsigned salt) {
    return AblationRuns{uneven_blocks(1 + seconds, salt), {{"compute", seconds}}};
  };
  const auto notes = [&](double recorded_seconds) {
    AblationRuns mode = runs(0.03, 1);
    mode.mechanism_delta_seconds["compute"] = recorded_seconds;
    return ablate("deterministic", uneven_blocks(1, 0), mode,
                  {{"gemm", "ordering", runs(0.03, 2), runs(0, 3)},
                   {"norm", "ordering", runs(0, 4), runs(0.03, 5)}},
                  0.95)
        .notes;
  };
  // The total is what steps without recording differ by; recorded ones should say the same, within its interval.
  EXPECT_THAT(notes(0.03), ElementsAre(HasSubstr("no cost at all, by their intervals: norm")));
  EXPECT_THAT(notes(0.05), ElementsAre(HasSubstr("norm"), HasSubstr("outside the interval")));
}

TEST(Ablation, AMatrixThatDoesNotCloseIsRefused) {
  const Model model{[](unsigned s) { return 0.01 * std::popcount(s); },
                    [](unsigned) { return 0.0; }};
  const Ablation right = matrix_of(model);
  EXPECT_NO_THROW(check_closes(right));
  const auto complaint = [](const Ablation& wrong) -> std::string {
    try {
      check_closes(wrong);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Ablation wrong = right;
  wrong.knobs[0].cells[0] += 1e-4;
  EXPECT_THAT(complaint(wrong), HasSubstr("does not close"));
  wrong = right;
  wrong.total.cells[0] += 1e-4;
  EXPECT_THAT(complaint(wrong), HasSubstr("the knobs' compute"));
  wrong = right;
  wrong.knobs.pop_back();
  EXPECT_THAT(complaint(wrong), HasSubstr("does not close"));
}

TEST(Ablation, TwoRoundsGiveNoInterval) {
  const std::vector<Block> fast = blocks_of(1, 2);
  const AblationRuns mode{blocks_of(1.1, 2), {{"compute", 0.1}}};
  const Ablation ablation =
      ablate("deterministic", fast, mode, {{"gemm", "ordering", mode, {fast, {}}}}, 0.95);
  EXPECT_FALSE(ablation.total.seconds);
  EXPECT_THAT(ablation.notes, ElementsAre("no intervals from 2 rounds"));
  EXPECT_NEAR(ablation.knobs.at(0).cells.at(0), 0.1, 1e-12);
}

TEST(Ablation, RoundsThatARunLacksAreLeftOut) {
  const std::vector<Block> fast = blocks_of(1);
  const AblationRuns mode{blocks_of(1.1, 3), {{"compute", 0.1}}};
  EXPECT_EQ(ablate("deterministic", fast, mode, {}, 0.95).rounds, 3);
  const AblationRuns nothing;
  EXPECT_THAT(ablate("deterministic", fast, nothing, {}, 0.95).refusal, HasSubstr("no round"));
}

}  // namespace
}  // namespace dettax
