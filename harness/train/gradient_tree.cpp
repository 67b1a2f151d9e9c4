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

std::vector<GradientRange> gradients_of(const Chunk& chunk, const ModelLayout& layout,
                                        const ParameterStore& parameters) {
  std::vector<GradientRange> ranges;
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const int64_t layer = layout.parameters[p].layer;
    const bool at_an_end = layer < 0 && (chunk.embedding || chunk.head);
    if (!at_an_end && (layer < chunk.first_layer || layer >= chunk.end_layer())) continue;
    // Up to the next one, or to what a head keeps apart behind all of them.
    const bool last = p + 1 == layout.parameters.size();
    append(ranges, parameters.offset(static_cast<int>(p)),
           last ? parameters.gradient_count() : parameters.offset(static_cast<int>(p + 1)));
  }
  return ranges;
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
