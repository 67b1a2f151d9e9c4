#include "harness/train/gradient_tree.h"

#include <algorithm>
#include <bit>

namespace dettax {

bool GradientTree::wanted(const Knobs& knobs) {
  return std::ranges::any_of(
      std::initializer_list<Order>{knobs.gemm, knobs.attention, knobs.embedding, knobs.norm},
      [](Order order) { return order == Order::invariant; });
}

// Before micro-batch i there is one copy for each binary digit 1 of i.
int GradientTree::copy_for(int64_t micro_batch) const {
  return tree ? std::popcount(static_cast<uint64_t>(micro_batch)) : 0;
}

int GradientTree::copies() const {
  int most = 1;
  for (int64_t i = 0; i < micro_batches; ++i) most = std::max(most, 1 + copy_for(i));
  return most;
}

void GradientTree::merge(StepContext& c, int64_t micro_batch) const {
  if (!tree || micro_batches == 1) return;
  const bool last = micro_batch + 1 == micro_batches;
  int top = copy_for(micro_batch);
  const int merges = last ? top : std::countr_one(static_cast<uint64_t>(micro_batch));
  for (int i = 0; i < merges; ++i, --top) {
    c.begin(Op::gradient_tree);
    c.ops.add(c.parameters.all_gradients(top - 1), c.parameters.all_gradients(top));
    c.probe.output("sum", c.parameters.all_gradients(top - 1), 0);
  }
}

}  // namespace dettax
