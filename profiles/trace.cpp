#include "profiles/trace.h"

#include <algorithm>
#include <array>

namespace dettax {

namespace {

constexpr std::array<const char*, kCategoryCount> kNames{
    "compute",     "fill",     "communication", "copy",     "memset",     "launch",
    "synchronize", "allocate", "api",           "profiler", "annotation", "op"};

}  // namespace

const char* to_string(Category category) { return kNames[static_cast<size_t>(category)]; }

std::optional<Category> category_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Category>(found - kNames.begin());
}

void sort_spans(Trace& trace) {
  const auto before = [](const auto& a, const auto& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  };
  std::stable_sort(trace.spans.begin(), trace.spans.end(), before);
  std::stable_sort(trace.steps.begin(), trace.steps.end(), before);
}

}  // namespace dettax
