// The interval is held to what it promises: on simulated machines, with the real loop, its real warm-up and its real stopping rule.
#include <gtest/gtest.h>

#include "tests/measure/simulated_arm.h"

namespace dettax {
namespace {

struct Machine {
  const char* name;
  std::function<Noise()> noise;
};

// Machines a CPU or a GPU can be. Sigma is the scatter of one step.
std::vector<Machine> machines() {
  return {{"lognormal", [] { return lognormal(0.02); }},
          {"wide lognormal", [] { return lognormal(0.10); }},
          {"drift", [] { return drifting(0.0005, 0.01); }},
          {"bimodal", [] { return bimodal(0.10, 0.01); }},
          {"sticky bimodal", [] { return sticky_bimodal(0.10, 0.01); }},
          {"spikes", [] { return spikes(8, 0.01); }}};
}

struct Outcome {
  int runs = 0, no_interval = 0;
  int covered = 0;       // the interval of det / fast holds the truth
  int false_alarms = 0;  // the interval of control / fast excludes 1
  double half_width = 0;
};

Outcome campaign(const Machine& machine, double truth, const MeasureSettings& settings, int runs) {
  Outcome outcome;
  for (int run = 0; run < runs; ++run) {
    Dice dice(static_cast<uint64_t>(run) + 1);
    SimulatedTime time;
    const Noise noise = machine.noise();
    // One state for all arms: they share the machine.
    const Noise shared = [&](Dice& d, const SimulatedTime& t) { return noise(d, t); };
    SimulatedArm fast("fast", 0.05, shared, dice, time),
        control("control", 0.05, shared, dice, time),
        det("deterministic", 0.05 * truth, shared, dice, time);
    const Measurement m =
        measure({&fast, &control, &det}, settings, static_cast<uint64_t>(run), time.clock(), {});
    const auto tax = paired_ratio(m.blocks[2], m.blocks[0], 0.95),
               same = paired_ratio(m.blocks[1], m.blocks[0], 0.95);
    ++outcome.runs;
    if (!tax || !same) {
      ++outcome.no_interval;
      continue;
    }
    outcome.covered += tax->low <= truth && truth <= tax->high;
    outcome.false_alarms += same->low > 1 || same->high < 1;
    outcome.half_width += (tax->high - tax->low) / 2 / runs;
  }
  return outcome;
}

constexpr int kRuns = 1000;
// 0.90 of the issue, and 5 % with three standard deviations of a binomial on top.
const double kFalseAlarmsAllowed = kRuns * 0.05 + 3 * std::sqrt(kRuns * 0.05 * 0.95);

void expect_calibrated(const Machine& machine, const MeasureSettings& settings) {
  for (double truth : {1.0, 1.03}) {
    const Outcome outcome = campaign(machine, truth, settings, kRuns);
    EXPECT_EQ(outcome.no_interval, 0) << machine.name;
    EXPECT_GE(outcome.covered, 0.93 * kRuns) << machine.name;
    EXPECT_LE(outcome.false_alarms, kFalseAlarmsAllowed) << machine.name;
    std::printf(
        "%-16s truth %.2f: covered %.1f %%, A/A called different %.1f %%, mean half-width %.2f "
        "%%\n",
        machine.name, truth, 100.0 * outcome.covered / kRuns, 100.0 * outcome.false_alarms / kRuns,
        100 * outcome.half_width);
  }
}

TEST(Calibration, AFixedNumberOfRoundsCoversTheTruth) {
  MeasureSettings settings;
  settings.target_half_width = 0;  // never reached
  settings.rounds_max = 8;
  settings.budget_seconds = 1e9;
  for (const Machine& machine : machines()) expect_calibrated(machine, settings);
}

// Looking and stopping when the interval is narrow favours intervals that are narrow by chance.
TEST(Calibration, StoppingWhenTheIntervalIsNarrowDoesNotSpoilIt) {
  MeasureSettings settings;
  settings.target_half_width = 0.01;
  settings.budget_seconds = 60;
  for (const Machine& machine : machines()) expect_calibrated(machine, settings);
}

TEST(Calibration, AFewRoundsAreWideAndStillCover) {
  MeasureSettings settings;
  settings.rounds_min = 3;
  settings.rounds_max = 3;
  settings.budget_seconds = 1e9;
  for (const Machine& machine : machines()) expect_calibrated(machine, settings);
}

// The twin of the above: the check can fail. Treating steps as if they were independent rounds, as a mean over all steps with its
// standard error does, is far from calibrated on a machine whose state lasts.
TEST(Calibration, TheCheckSeesAnIntervalThatIsTooNarrow) {
  int missed = 0;
  for (int run = 0; run < 200; ++run) {
    Dice dice(static_cast<uint64_t>(run) + 1);
    SimulatedTime time;
    const Noise noise = sticky_bimodal(0.10, 0.01);
    SimulatedArm fast("fast", 0.05, noise, dice, time), control("control", 0.05, noise, dice, time);
    double mean[2] = {0, 0}, square[2] = {0, 0};
    SimulatedArm* arms[2] = {&fast, &control};
    constexpr int kSteps = 40;
    for (int arm = 0; arm < 2; ++arm) {
      const Block block = arms[arm]->run_steps(kSteps);
      for (double seconds : block.step_time_seconds[0]) {
        mean[arm] += seconds / kSteps;
        square[arm] += seconds * seconds / kSteps;
      }
    }
    const double variance = square[0] - mean[0] * mean[0] + square[1] - mean[1] * mean[1];
    missed += std::abs(mean[0] - mean[1]) > 2 * std::sqrt(variance / kSteps);
  }
  EXPECT_GT(missed, 200 * 0.2);
}

}  // namespace
}  // namespace dettax
