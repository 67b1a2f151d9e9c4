#include "harness/train/operands.h"

#include <algorithm>
#include <cmath>

namespace dettax {

Operands::Operands(const PrecisionRecipe& recipe, int64_t layers, const OperandSizes& sizes,
                   Device& device)
    : recipe_(recipe), device_(device) {
  if (!copied()) return;
  lay_out(layers, sizes);
  arena_.allocate(device);
  lay_out(layers, sizes);
  seen_.assign(static_cast<size_t>(layers * kSitesPerLayer * kOperandCount), 0.0F);
  reset();
}

void Operands::lay_out(int64_t layers, const OperandSizes& sizes) {
  copies_[static_cast<int>(Operand::input)] = arena_.floats({sizes.input});
  copies_[static_cast<int>(Operand::weight)] = arena_.floats({sizes.weight});
  copies_[static_cast<int>(Operand::gradient)] = arena_.floats({sizes.gradient});
  amax_ = arena_.floats({1});
  if (recipe_.delayed_scales)
    history_ = arena_.floats({layers * kSitesPerLayer * kOperandCount, kHistory});
}

void Operands::reset() {
  steps_ = 0;
  std::fill(seen_.begin(), seen_.end(), 0.0F);
  if (history_) device_.ops().fill_bytes(history_, 0);
}

Tensor Operands::largest(size_t slot, const Tensor& values) {
  device_.ops().absolute_maximum({amax_, values});
  if (!recipe_.delayed_scales) return amax_;
  float now = 0;
  device_.copy_to_host(&now, amax_.data, sizeof now);
  // A NaN stays: it is what the next steps have to show.
  if (!(now <= seen_[slot])) seen_[slot] = now;
  return delayed_largest(slot);
}

// In the first step nothing has been seen and the scale is 1.
Tensor Operands::delayed_largest(size_t slot) {
  const Tensor row =
      make_tensor(history_.f32() + static_cast<int64_t>(slot) * kHistory, DType::f32, {kHistory});
  device_.ops().absolute_maximum({amax_, row});
  return amax_;
}

Tensor Operands::make(Operand part, int64_t site, const Tensor& values, SumOver sum) {
  if (!copied()) return values;
  const bool head = site == kHead;
  const NumberFormat format = head                        ? recipe_.activations
                              : part == Operand::gradient ? recipe_.gradient_operands
                                                          : recipe_.operands;
  // Activations are rounded where they are made; only weights have to be again.
  if (format == recipe_.activations && (part != Operand::weight || format == NumberFormat::f32))
    return values;
  Quantize call;
  call.y = values;
  call.y.data = copies_[static_cast<int>(part)].data;
  call.x = values;
  call.format = format;
  if (!head && recipe_.scales != ScaleGroup::none) {
    call.group = recipe_.scales == ScaleGroup::tensor ? ScaleGroup::tensor
                 : sum == SumOver::rows               ? ScaleGroup::along_columns
                                                      : ScaleGroup::along_rows;
    call.block = recipe_.block;
    call.scale_format = recipe_.scale_format;
    const auto slot = static_cast<size_t>(site * kOperandCount + static_cast<int64_t>(part));
    if (recipe_.scales == ScaleGroup::tensor || recipe_.scale_format == NumberFormat::e4m3)
      call.amax = largest(slot, values);
  }
  device_.ops().quantize(call);
  return call.y;
}

NumberFormat Operands::format_in_product() const {
  return copied() ? NumberFormat::f32 : recipe_.operands;
}

NumberFormat Operands::format_in_head() const {
  const bool rounds =
      recipe_.operands == NumberFormat::tf32 && device_.rounds_operands(NumberFormat::tf32);
  return rounds ? NumberFormat::tf32 : NumberFormat::f32;
}

void Operands::end_step(Communicator& ranks) {
  if (!recipe_.delayed_scales) return;
  const auto own_bytes = static_cast<int64_t>(seen_.size() * sizeof(float));
  std::vector<float> all(seen_.size() * static_cast<size_t>(ranks.size()));
  ranks.all_gather(seen_.data(), all.data(), own_bytes);
  for (size_t slot = 0; slot < seen_.size(); ++slot) {
    float most = 0;
    for (size_t at = slot; at < all.size(); at += seen_.size()) {
      if (!(all[at] <= most)) most = all[at];
      if (std::isnan(most)) break;
    }
    float* newest = history_.f32() + static_cast<int64_t>(slot) * kHistory + steps_ % kHistory;
    device_.copy_from_host(newest, &most, sizeof most);
  }
  std::fill(seen_.begin(), seen_.end(), 0.0F);
  ++steps_;
}

}  // namespace dettax
