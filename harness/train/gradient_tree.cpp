#include "harness/train/gradient_tree.h"

#include <algorithm>
#include <bit>

namespace dettax {
namespace {

void append(std::vector<GradientRange>& ranges, int64_t begin, int64_t end) {
  if (begin == end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

}  // namespace

// Parameters lie in forward order, but that a tied table stands in front on the last stage as well, and what the head keeps apart
// behind all others.
std::vector<GradientRange> gradients_of(const Chunk& chunk, const ModelLayout& layout,
                                        const ParameterStore& parameters) {
  const auto begin_of_layer = [&](int64_t layer) {
    const auto held = static_cast<size_t>(layer) < layout.layers.size()
                          ? layout.layers[static_cast<size_t>(layer)].norm1.gamma
                          : layout.final_norm.gamma;
    return held == kNoParameter ? -1 : parameters.offset(held);
  };
  int64_t front = -1;
  int64_t behind = -1;  // where the first layer held behind the chunk begins
  for (int64_t i = 0; i < std::ssize(layout.layers) + 1; ++i) {
    const int64_t begin = begin_of_layer(i);
    if (begin < 0) continue;
    if (front < 0) front = begin;
    if (behind < 0 && i >= chunk.end_layer()) behind = begin;
  }
  const int64_t all = parameters.gradient_count();
  std::vector<GradientRange> ranges;
  if (chunk.embedding || chunk.head) append(ranges, 0, front);
  append(ranges, begin_of_layer(chunk.first_layer), behind < 0 ? all : behind);
  if (chunk.head) append(ranges, begin_of_layer(chunk.end_layer()), all);
  return ranges;
}

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

void GradientTree::merge(StepContext& c, int64_t micro_batch,
                         const std::vector<GradientRange>& ranges) const {
  if (!tree || micro_batches == 1) return;
  const bool last = micro_batch + 1 == micro_batches;
  int top = copy_for(micro_batch);
  const int merges = last ? top : std::countr_one(static_cast<uint64_t>(micro_batch));
  for (int i = 0; i < merges; ++i, --top) {
    c.begin(Op::gradient_tree);
    for (const GradientRange& r : ranges) {
      const Tensor sum = c.parameters.gradient_range(r.begin, r.end, top - 1);
      c.ops.add(sum, c.parameters.gradient_range(r.begin, r.end, top));
      c.probe.output("sum", sum, static_cast<uint64_t>(r.begin));
    }
  }
}

}  // namespace dettax
