#pragma once

#include <cmath>
#include <functional>
#include <string>

#include "harness/base/random.h"
#include "harness/measure/measure.h"

namespace dettax {

// Time that passes only when a simulated arm runs.
struct SimulatedTime {
  double seconds = 0;
  int64_t steps = 0;  // of all arms together
  MeasureClock clock() {
    return {[this] { return seconds; }};
  }
};

// Uniform and normal numbers of one simulated machine: every draw is a new one.
class Dice {
 public:
  explicit Dice(uint64_t seed) : key_{seed, RandomPurpose::test, 7} {}
  double uniform() { return dettax::uniform(random_words(key_, 0, drawn_++)[0]); }
  double normal() {
    const auto words = random_words(key_, 1, drawn_++);
    return dettax::normal(words[0], words[1]);
  }

 private:
  RandomKey key_;
  uint64_t drawn_ = 0;
};

// What a machine does to a step: factor on its time.
using Noise = std::function<double(Dice&, const SimulatedTime&)>;

class SimulatedArm : public TimedArm {
 public:
  SimulatedArm(std::string name, double step_seconds, Noise noise, Dice& dice, SimulatedTime& time)
      : name_(std::move(name)),
        step_seconds_(step_seconds),
        noise_(std::move(noise)),
        dice_(dice),
        time_(time) {}

  const std::string& name() const override { return name_; }
  Block run_steps(int steps) override {
    Block block;
    block.step_time_seconds.resize(1);
    if (before_block) before_block(block);
    for (int i = 0; i < steps; ++i) {
      const double seconds = step_seconds_ * noise_(dice_, time_);
      time_.seconds += seconds;
      ++time_.steps;
      block.step_time_seconds[0].push_back(seconds);
    }
    return block;
  }

  std::function<void(Block&)> before_block;

 private:
  std::string name_;
  double step_seconds_;
  Noise noise_;
  Dice& dice_;
  SimulatedTime& time_;
};

// --- noises ----------------------------------------------------------------------------------------------------------------------

inline Noise lognormal(double sigma) {
  return [sigma](Dice& dice, const SimulatedTime&) { return std::exp(sigma * dice.normal()); };
}
// +`per_step` of the first step's time each step, whichever arm runs.
inline Noise drifting(double per_step, double sigma) {
  return [=](Dice& dice, const SimulatedTime& time) {
    return (1 + per_step * static_cast<double>(time.steps)) * std::exp(sigma * dice.normal());
  };
}
// Two peaks, `apart` from each other, step by step.
inline Noise bimodal(double apart, double sigma) {
  return [=](Dice& dice, const SimulatedTime&) {
    return (dice.uniform() < 0.5 ? 1.0 : 1.0 + apart) * std::exp(sigma * dice.normal());
  };
}
// The machine stays in one of two states for a while, whichever arm runs.
inline Noise sticky_bimodal(double apart, double sigma) {
  return [=, slow = false](Dice& dice, const SimulatedTime&) mutable {
    if (dice.uniform() < 0.1) slow = !slow;
    return (slow ? 1.0 + apart : 1.0) * std::exp(sigma * dice.normal());
  };
}
// One step in `every` takes 10 to 30 % longer.
inline Noise spikes(double every, double sigma) {
  return [=](Dice& dice, const SimulatedTime&) {
    const double spike = dice.uniform() < 1 / every ? 0.1 + 0.2 * dice.uniform() : 0.0;
    return (1 + spike) * std::exp(sigma * dice.normal());
  };
}

}  // namespace dettax
