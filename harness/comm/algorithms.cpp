#include "harness/comm/algorithms.h"

#include <algorithm>

namespace dettax {

float* at_least(Scratch& scratch, int64_t count) {
  if (static_cast<int64_t>(scratch.size()) < count) scratch.resize(static_cast<size_t>(count));
  return scratch.data();
}

std::vector<Range> cut(int64_t count, int parts) {
  constexpr int64_t kLine = 16;
  std::vector<Range> ranges(static_cast<size_t>(parts));
  int64_t begin = 0;
  for (int p = 0; p < parts; ++p) {
    const int64_t end = std::min(count, (count * (p + 1) / parts + kLine - 1) / kLine * kLine);
    ranges[static_cast<size_t>(p)] = {begin, end};
    begin = end;
  }
  return ranges;
}

std::vector<Range> equal_parts(int64_t size, int parts) {
  std::vector<Range> ranges(static_cast<size_t>(parts));
  for (int p = 0; p < parts; ++p) ranges[static_cast<size_t>(p)] = {p * size, (p + 1) * size};
  return ranges;
}

}  // namespace dettax
