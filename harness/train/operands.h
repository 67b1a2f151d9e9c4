#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/plan/local_sizes.h"
#include "harness/train/arena.h"
#include "harness/train/precision.h"

namespace dettax {

// What a matrix product reads, by its part in a linear layer.
enum class Operand { input, weight, gradient };
inline constexpr int kOperandCount = 3;

// A linear layer of a transformer block.
enum class LinearSite { qkv, projection, up, down, expert_up, expert_down };
inline constexpr int kSitesPerLayer = 6;

// The dimension of an operand that the product sums over.
enum class SumOver { columns, rows };

// Makes the operands of narrow matrix products: rounded copies in memory of their own, one a part, overwritten by the next. In a
// precision whose operands are as they are stored, or that the device rounds to by itself, it hands them through.
class Operands {
 public:
  Operands(const PrecisionRecipe& recipe, int64_t layers, const OperandSizes& sizes,
           Device& device);

  const PrecisionRecipe& recipe() const { return recipe_; }
  // Sites are counted layer * kSitesPerLayer + site; kHead is the output projection, which keeps the activations' format.
  static constexpr int64_t kHead = -1;
  Tensor make(Operand part, int64_t site, const Tensor& values, SumOver sum);
  // What the product itself is to round to, of operands made here: f32 but where the device does it.
  NumberFormat format_in_product() const;
  // Likewise the head's products, whose operands are never copies.
  NumberFormat format_in_head() const;

  // Delayed scales: after a step the largest magnitudes seen, over all ranks of the group, become the newest of the history.
  void end_step(Communicator& ranks);
  void reset();
  // The history, as state that outlives a step; empty unless scales are delayed.
  Tensor history() const { return history_; }
  int64_t& saved_steps() { return steps_; }  // its newest place, to be saved and put back
  int64_t bytes() const { return arena_.bytes(); }

 private:
  static constexpr int64_t kHistory = 16;  // steps

  bool copied() const { return recipe_.narrow() && !device_.rounds_operands(recipe_.operands); }
  void lay_out(int64_t layers, const OperandSizes& sizes);
  Tensor largest(size_t slot, const Tensor& values);
  Tensor delayed_largest(size_t slot);

  const PrecisionRecipe recipe_;
  Device& device_;
  Arena arena_;
  Tensor copies_[kOperandCount];
  Tensor amax_;              // [1]
  Tensor history_;           // [slots, kHistory]
  std::vector<float> seen_;  // of this step, a slot each
  int64_t steps_ = 0;
};

}  // namespace dettax
