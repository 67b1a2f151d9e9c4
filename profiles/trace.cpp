#include "profiles/trace.h"

#include <algorithm>
#include <array>

namespace dettax {

const char* to_string(Category category) {
  static constexpr std::array<const char*, kCategoryCount> kNames{
      "compute",     "fill",     "communication", "copy",     "memset",     "launch",
      "synchronize", "allocate", "api",           "profiler", "annotation", "op"};
  return kNames[static_cast<size_t>(category)];
}

void sort_spans(Trace& trace) {
  const auto before = [](const auto& a, const auto& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  };
  std::stable_sort(trace.spans.begin(), trace.spans.end(), before);
  std::stable_sort(trace.steps.begin(), trace.steps.end(), before);
}

}  // namespace dettax
