#pragma once

#include <cstdint>

namespace dettax {

// Dynamic loss scaling (Micikevicius et al., Mixed Precision Training, 2018, section 3.2; constants as usual in trainers): gradients
// are computed times a power of two so that small ones do not vanish in f16. A step whose gradients overflow changes no weight and
// halves the scale; `growth_interval` good steps in a row double it.
class LossScale {
 public:
  explicit LossScale(bool active) : active_(active) {}

  double value() const { return active_ ? scale_ : 1.0; }
  // True if the step may change the weights.
  bool accept(bool gradients_finite) {
    if (!active_) return true;
    if (!gradients_finite) {
      scale_ = scale_ > kLeast ? scale_ / 2 : kLeast;
      good_steps_ = 0;
      return false;
    }
    if (++good_steps_ == kGrowthInterval) {
      scale_ = scale_ < kLargest ? scale_ * 2 : kLargest;
      good_steps_ = 0;
    }
    return true;
  }
  void reset() {
    scale_ = kFirst;
    good_steps_ = 0;
  }
  int64_t good_steps() const { return good_steps_; }
  bool active() const { return active_; }
  // To be saved and put back.
  double& saved_scale() { return scale_; }
  int64_t& saved_good_steps() { return good_steps_; }

 private:
  static constexpr double kFirst = 65536.0;
  static constexpr double kLeast = 1.0;
  static constexpr double kLargest = 0x1p40;
  static constexpr int64_t kGrowthInterval = 2000;

  const bool active_;
  double scale_ = kFirst;
  int64_t good_steps_ = 0;
};

}  // namespace dettax
